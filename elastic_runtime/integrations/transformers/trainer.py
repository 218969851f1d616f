"""Hugging Face's Trainer for an elastic job: its loop is driven by a session.

    trainer = ElasticTrainer(model, args, train_dataset=data, processes=8)
    trainer.train()

Trainer keeps what does not depend on the number of workers: loss, collator, callbacks, logs,
schedule, metrics, and the layout of the models that it writes. The session decides on samples,
reduces gradients, steps the optimizer, saves what a job needs to continue, and evaluates.
"""

import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import ProgressCallback, Trainer, TrainerState, TrainingArguments
from transformers.trainer_callback import ExportableState

from elastic_runtime import Session, Sharded
from elastic_runtime.data.map_dataset import Loader
from elastic_runtime.integrations.after_step import AfterStep
from elastic_runtime.integrations.epochs import Epochs
from elastic_runtime.integrations.transformers import arguments, models, setup
from elastic_runtime.integrations.transformers.evaluation import Evaluation
from elastic_runtime.integrations.transformers.progress import Progress
from elastic_runtime.mistake import Mistake
from elastic_runtime.script_checks import raise_mistakes
from elastic_runtime.strategies.base import Strategy
from elastic_runtime.training.step import Step


class ElasticTrainer(Trainer):
    """A Trainer whose job may change its size. To combine it with another class of trainer, name it
    first: `class Mine(ElasticTrainer, Seq2SeqTrainer)`.

    Args:
        model, args, ...: as Trainer takes them.
        processes: for how many processes the arguments were chosen. A step has
            gradient_accumulation_steps * processes micro-batches of per_device_train_batch_size
            samples, at every size of the job.
        strategy: how the model is spread over the workers, as in Session.
        session_options: further arguments of Session, which precede those made from `args`.

    Raises:
        ValueError: names every argument of Trainer that has no meaning here.
    """

    # Of Trainer, which has no types where its package is missing.
    state: Any
    control: Any
    _created_lr_scheduler: bool
    _progress: Progress
    _after_step: AfterStep

    def __init__(
        self,
        model: Any = None,
        args: TrainingArguments | None = None,
        *others: Any,
        processes: int = 1,
        strategy: Strategy | None = None,
        session_options: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        raise_mistakes(arguments.version_mistakes(Trainer, transformers.__version__))
        args = args or TrainingArguments("tmp_trainer")
        self._is_sharded = isinstance(strategy, Sharded)
        raise_mistakes(arguments.argument_mistakes(args, is_sharded=self._is_sharded))
        setup.use_own_device(args)
        self.session: Session | None = None
        datasets = setup.given_datasets(Trainer, others, named)
        raise_mistakes(arguments.trainer_mistakes(processes, type(self), ElasticTrainer, *datasets))
        super().__init__(model, args, *others, **named)
        self._processes = processes
        self._strategy = strategy
        self._session_options = dict(session_options or {})
        self._checkpoints = setup.checkpoints(args, self._session_options)
        self._ignored_keys: list[str] | None = None
        # Of the last evaluation.
        self._has_metrics = False

    # --- the loop ---------------------------------------------------------------------------------

    def train(
        self,
        resume_from_checkpoint: str | bool | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> Any:
        """Train until the job ends. A job that was interrupted continues from output_dir."""
        setup.check_start(self.args, resume_from_checkpoint, trial)
        return super().train(None, None, ignore_keys_for_eval)

    def _inner_training_loop(
        self,
        batch_size: int | None = None,
        args: TrainingArguments | None = None,
        resume_from_checkpoint: str | None = None,
        trial: Any = None,
        ignore_keys_for_eval: list[str] | None = None,
    ) -> Any:
        self._ignored_keys = ignore_keys_for_eval
        dataloader = self.get_train_dataloader()
        self._micro_batches = int(self.args.gradient_accumulation_steps) * self._processes
        batch = self._micro_batches * int(self.args.per_device_train_batch_size)
        self._plan = arguments.Plan(
            Epochs(len(dataloader.dataset), batch), self.args.num_train_epochs, self.args.max_steps
        )
        self._begin_state()
        model = self._prepare_model()
        options = setup.session_options(self, self._plan) | self._session_options
        self.session = session = Session(self.model, self.optimizer, **options)
        loader = session.loader(dataloader.dataset, **setup.loader_options(self.args, dataloader))
        self.callback_handler.train_dataloader = loader
        with setup.optimizer_events(self.optimizer, self._call):
            for step in self._steps(session):
                self._follow_step(session, is_last=False)
                if self._progress.stops:
                    session.stop()
                self._call("on_step_begin")
                self._compute(model, step, loader)
                session.commit()
        self._follow_step(session, is_last=True)
        samples = batch * self._plan.steps
        return self._finalize_training(None, samples, time.time() - self._progress.seconds)

    def _steps(self, session: Session) -> Iterator[Step]:
        """Until the job has ended. The callbacks learn of the beginning when the rank is known."""
        step = session.begin(self._plan.steps)
        self._follow_rank(session)
        self._start_time = time.time() - self._progress.seconds
        self._call("on_train_begin")
        if self.args.eval_on_start and session.step == 0:
            self._evaluate(None, self._ignored_keys, skip_scheduler=True)
        self._call("on_epoch_begin")
        while step:
            yield step
            step = session.begin(self._plan.steps)
            self._follow_rank(session)

    def _compute(self, model: torch.nn.Module, step: Step, loader: Loader) -> None:
        """The gradients of this worker's micro-batches."""
        for number, inputs in enumerate(loader.batches(step)):
            if number:
                self._call("on_substep_end")
            model.train()
            if callable(getattr(self.optimizer, "train", None)):
                self.optimizer.train()
            inputs = self._prepare_inputs(inputs)
            items = self._get_num_items_in_batch([inputs], self.args.device)
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, inputs, num_items_in_batch=items)
            step.backward(loss, weight=items if self._is_mean_over_items(items) else None)
        step.clip(self.args.max_grad_norm if self.args.max_grad_norm > 0 else math.inf)

    def _is_mean_over_items(self, items: Any) -> bool:
        """Whether the loss was divided by `items`, as Trainer.training_step decides it."""
        if self.loss_is_scaled_for_ga is not None:
            is_mean = self.loss_is_scaled_for_ga
        else:
            is_mean = self.model_accepts_loss_kwargs or self.compute_loss_func is not None
        return bool(is_mean) and items is not None

    # --- what follows a step ----------------------------------------------------------------------

    def _follow_step(self, session: Session, *, is_last: bool) -> None:
        """What Trainer does after a step, if it has not done it for the last one committed."""
        if self._after_step.step >= session.step:
            return
        with self._after_step.following(session.step):
            self._progress.add_loss(session.loss)
            self.state.global_step = session.step
            self.state.epoch = self._plan.epochs.used(session.step)
            self._progress.seconds = time.time() - self._start_time
            self._call("on_step_end")
            self._act_on_control(session)
            if is_last or self._plan.epochs.ends(session.step):
                self._call("on_epoch_end")
                self._act_on_control(session)
                if not is_last:
                    self._call("on_epoch_begin")
            self._progress.learning_rate = self._get_learning_rate()
            self._progress.stops = self.control.should_training_stop and not is_last

    def _act_on_control(self, session: Session) -> None:
        self._maybe_log_save_evaluate(
            self._tr_loss,
            session.gradient_norm,
            self.model,
            None,
            self.state.epoch,
            self._ignored_keys,
            self._start_time,
            learning_rate=self._progress.learning_rate,
        )
        if self.control.should_epoch_stop:
            raise Mistake(arguments.EPOCH_STOP)

    def _follow_rank(self, session: Session) -> None:
        """To Trainer and Accelerate the first process is rank 0, which may have become another."""
        shared = self.args.distributed_state
        shared.process_index = shared.local_process_index = session.rank
        has_become_first = session.rank == 0 and not self.state.is_world_process_zero
        self.state.is_world_process_zero = self.is_world_process_zero()
        self.state.is_local_process_zero = self.is_local_process_zero()
        for callback in self.callback_handler.callbacks:
            if has_become_first and isinstance(callback, ProgressCallback):
                # It has made no bar, because another process was the first when it began.
                callback.on_train_begin(self.args, self.state, self.control)

    # --- before the first step --------------------------------------------------------------------

    def _begin_state(self) -> None:
        callbacks = [*self.callback_handler.callbacks, self.control]
        self.state = TrainerState(
            stateful_callbacks=[c for c in callbacks if isinstance(c, ExportableState)],
            train_batch_size=self._train_batch_size,
        )
        self.state.compute_steps(self.args, self._plan.steps)
        self.state.init_training_references(self, self._plan.steps, self._plan.whole_epochs, None)
        self._progress = Progress(self)
        self._after_step = AfterStep(self._progress.read, self._progress.write)
        self._tr_loss = torch.tensor(0.0, dtype=torch.float64)
        self._total_loss_scalar = 0.0
        self._globalstep_last_logged = 0
        # Figures at the end are those of the whole job.
        self._initial_global_step = 0

    def _prepare_model(self) -> torch.nn.Module:
        """The model to call, with autocast and compiled as the arguments say."""
        if self._created_lr_scheduler:
            self.lr_scheduler = None
        self.create_optimizer_and_scheduler(self._plan.steps)
        self._progress.learning_rate = self._get_learning_rate()
        model: torch.nn.Module = self.accelerator.prepare_model(self.model)
        self.model_wrapped = model
        for name in ("model", "optimizer", "lr_scheduler"):
            setattr(self.callback_handler, name, getattr(self, name))
        return model

    def _call(self, event: str) -> None:
        """Let the callbacks learn of an event, and decide what follows."""
        call = getattr(self.callback_handler, event)
        self.control = call(self.args, self.state, self.control)

    # --- evaluation and saving --------------------------------------------------------------------

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> Any:
        """Trainer's, over all workers if it evaluates in the job or after it."""
        if self.session is None or description != "Evaluation":
            return super().evaluation_loop(
                dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix
            )
        loss_only = bool(prediction_loss_only or self.args.prediction_loss_only)
        evaluation = Evaluation(self, dataloader, loss_only=loss_only, ignore_keys=ignore_keys)
        output = evaluation.run(metric_key_prefix)
        self._has_metrics = evaluation.is_complete
        # Workers may have been lost meanwhile.
        self._follow_rank(self.session)
        return output

    def _determine_best_metric(self, metrics: dict[str, float], trial: Any) -> bool:
        """Also keeps the session's checkpoint of the best state."""
        is_best = self._has_metrics and super()._determine_best_metric(metrics, trial)
        if is_best and self.args.load_best_model_at_end:
            assert self.session
            self.session.keep_best(
                self.state.best_metric, lower_is_better=not self.args.greater_is_better
            )
            self.state.best_model_checkpoint = models.path(self, self.state.global_step)
        return is_best

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """The model in Trainer's layout, by one worker. The session saves what a job continues."""
        if self.is_world_process_zero() and not self._is_sharded:
            models.save(self)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Trainer's, by one worker. A sharded model is whole in the session's checkpoint only."""
        if self._is_sharded and state_dict is None and self.is_world_process_zero():
            state_dict = models.newest_state(self._checkpoints)
        super()._save(output_dir, state_dict)

    def _load_best_model(self) -> None:
        if self.state.best_global_step != self.state.global_step:
            models.load_best(self)
        if not Path(self.state.best_model_checkpoint).exists():
            # The worker that wrote it was lost. Trainer would compare it with others.
            self.state.best_model_checkpoint = None
