"""`fit`, in place of `Trainer.fit`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from elastic_runtime.integrations.after_step import AfterStep
from elastic_runtime.integrations.lightning import mistakes, optimizers
from elastic_runtime.integrations.lightning.data import Data, as_list, elastic_loader
from elastic_runtime.integrations.lightning.hooks import Hooks
from elastic_runtime.integrations.lightning.logged_values import LoggedValues
from elastic_runtime.integrations.lightning.loop import Best, Loop
from elastic_runtime.integrations.lightning.options import Options
from elastic_runtime.integrations.lightning.trainer import Trainer
from elastic_runtime.integrations.lightning.validation import Validation
from elastic_runtime.session import Session
from elastic_runtime.session_checks import checks_arguments
from elastic_runtime.training.worker_device import device


@checks_arguments("fit")
def fit(
    model: Any,
    train_dataloaders: Any = None,
    val_dataloaders: Any = None,
    datamodule: Any = None,
    *,
    micro_batches: int,
    max_epochs: int | None = None,
    max_steps: int | None = None,
    validate_every: int = 0,
    check_val_every_n_epoch: int = 1,
    callbacks: Any = None,
    logger: Any = None,
    log_every_n_steps: int = 50,
    gradient_clip_val: float | None = None,
    precision: Any = "32-true",
    **session_options: Any,
) -> Session:
    """Train a LightningModule as an elastic job.

    Args:
        model: the LightningModule.
        train_dataloaders: a DataLoader, whose batch_size is that of a micro-batch; or a
            LightningDataModule. None: that of the datamodule or the module.
        val_dataloaders: one or several; None: as above.
        datamodule: a LightningDataModule.
        micro_batches: of one step, over all workers; as for a Session.
        max_epochs: after how many the job ends.
        max_steps: after how many committed steps the job ends.
        validate_every: steps between two validations; 0: they are at the ends of epochs.
        check_val_every_n_epoch: epochs between two validations.
        callbacks: one or several of Lightning's. ModelCheckpoint becomes `session.keep_best`.
        logger: one or several of Lightning's; only the leading worker writes.
        log_every_n_steps: steps between two lines of what training_step logs.
        gradient_clip_val: the 2-norm to which the gradient of a step is limited.
        precision: "32-true", "bf16-mixed" or "16-mixed".
        session_options: those of a Session, such as checkpoint, save_every, seed and strategy.

    Returns:
        the session, whose loop has ended.

    Raises:
        ValueError: for what is not supported, with what to use.
    """
    if hasattr(train_dataloaders, "train_dataloader"):
        train_dataloaders, datamodule = None, train_dataloaders
    options = Options(
        micro_batches,
        max_epochs,
        max_steps,
        validate_every,
        check_val_every_n_epoch,
        log_every_n_steps,
        gradient_clip_val,
        precision,
    )
    mistakes.raise_first(
        [
            *mistakes.option_mistakes(session_options),
            *mistakes.module_mistakes(model),
            *options.mistakes(),
        ]
    )
    logged = LoggedValues()
    trainer = Trainer(model, datamodule, logged, as_list(logger), micro_batches)
    trainer.check_val_every_n_epoch = check_val_every_n_epoch
    trainer.callbacks = [*as_list(callbacks), *as_list(model.configure_callbacks())]
    data = Data(model, train_dataloaders, val_dataloaders, datamodule)
    with _attached(model, datamodule, trainer):
        return _fit(trainer, data, options, session_options)


def _fit(
    trainer: Trainer, data: Data, options: Options, session_options: Mapping[str, Any]
) -> Session:
    checkpoints, callbacks = _checkpoints(trainer.callbacks)
    mistakes.raise_first(mistakes.callback_mistakes(callbacks))
    for callback in checkpoints:
        directory = session_options.get("checkpoint")
        mistakes.raise_first(mistakes.checkpoint_mistakes(callback, directory))
    hooks = Hooks(trainer, trainer.model, callbacks, trainer.datamodule)
    data.prepare()
    hooks.call_stage("setup")
    best = [Best(callback.monitor, callback.mode == "min") for callback in checkpoints]
    loop = _loop(trainer, hooks, data, options, best, session_options)
    hooks.call("on_fit_start")
    loop.run()
    hooks.call("on_fit_end")
    hooks.call_stage("teardown")
    return loop.session


def _loop(
    trainer: Trainer,
    hooks: Hooks,
    data: Data,
    options: Options,
    best: Sequence[Best],
    session_options: Mapping[str, Any],
) -> Loop:
    """Builds the optimizer and the session."""
    module = trainer.model
    loader = data.training()
    plan = options.plan(loader)
    trainer.set_length(plan.until, plan.epochs)
    module.configure_model()
    module.to(device())
    optimization = optimizers.parse(module.configure_optimizers(), plan.epochs)
    trainer.set_optimizers(optimization.optimizer, optimization.all_schedulers())
    after_step = AfterStep(trainer.logged.read, trainer.logged.write)
    own = [after_step, *hooks.stateful(), *optimization.of_plateaus()]
    given = {"grad_scaler": options.grad_scaler(module.device)} | dict(session_options)
    session = Session(
        module,
        optimization.optimizer,
        micro_batches=options.micro_batches,
        micro_batch_size=int(loader.batch_size or 1),
        lr_schedulers=optimization.schedulers,
        stateful=[*own, *given.pop("stateful", ())],
        **given,
    )
    trainer.session = session
    autocast = options.autocast(module.device)
    return Loop(
        session,
        elastic_loader(session, loader),
        plan,
        trainer,
        hooks,
        Validation(hooks, data.validation(), trainer.logged, autocast),
        after_step,
        best,
        optimization.plateaus,
        autocast,
    )


def _checkpoints(callbacks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Those that are a ModelCheckpoint, and the others."""
    checkpoints = [callback for callback in callbacks if mistakes.is_a(callback, "ModelCheckpoint")]
    return checkpoints, [callback for callback in callbacks if callback not in checkpoints]


@contextmanager
def _attached(module: Any, datamodule: Any, trainer: Trainer) -> Iterator[None]:
    """The module reads this trainer, and logs to it."""
    module.trainer = trainer
    # LightningModule.log reads private parts of Lightning's Trainer.
    module.log = trainer.logged.log
    if datamodule is not None:
        datamodule.trainer = trainer
    try:
        yield
    finally:
        module.trainer = None
        del module.log
