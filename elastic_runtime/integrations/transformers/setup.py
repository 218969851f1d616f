"""Makes a session, its loader and its device from TrainingArguments."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from elastic_runtime.integrations.signatures import signature
from elastic_runtime.integrations.transformers.arguments import (
    OTHER_CHECKPOINT,
    SEARCH,
    Plan,
    plain,
)
from elastic_runtime.mistake import Mistake
from elastic_runtime.training.worker_device import device

# In output_dir: what a job needs to continue, beside the models in Trainer's layout.
SESSION_DIRECTORY = "session"


def check_start(args: Any, resume_from_checkpoint: str | bool | None, trial: Any) -> None:
    """Raises Mistake for what `Trainer.train` takes and an elastic job does not."""
    if trial is not None:
        raise Mistake(SEARCH)
    if resume_from_checkpoint and resume_from_checkpoint is not True:
        own = Path(args.output_dir).resolve()
        if own not in Path(resume_from_checkpoint).resolve().parents:
            raise Mistake(OTHER_CHECKPOINT % resume_from_checkpoint)


def given_datasets(
    trainer: type, others: Sequence[Any], named: Mapping[str, Any]
) -> tuple[Any, Any]:
    """train_dataset and eval_dataset. `others`, `named`: what a call has after model and args.

    Known before Trainer looks at them, which asks for max_steps if they have no length.
    """
    given = signature(trainer).bind_partial(None, None, *others).arguments | dict(named)
    return given.get("train_dataset"), given.get("eval_dataset")


def use_own_device(args: Any) -> None:
    """Workers on one machine have a GPU each, and none spreads its model over several."""
    if args.device.type == "cuda":
        own = device()
        args.__dict__["_setup_devices"] = own
        args.distributed_state.device = own
        args._n_gpu = 1


@contextmanager
def optimizer_events(optimizer: Any, call: Callable[[str], None]) -> Iterator[None]:
    """Inside, callbacks learn when the session steps it, by the gradients of all workers."""
    before = optimizer.register_step_pre_hook(lambda *_: call("on_pre_optimizer_step"))
    after = optimizer.register_step_post_hook(lambda *_: call("on_optimizer_step"))
    try:
        yield
    finally:
        before.remove()
        after.remove()


def checkpoints(args: Any, chosen: Mapping[str, Any]) -> Path:
    """Where the session saves. `chosen`: the arguments of Session that the user gives."""
    return Path(chosen.get("checkpoint") or Path(args.output_dir) / SESSION_DIRECTORY)


def session_options(trainer: Any, plan: Plan) -> dict[str, Any]:
    """The arguments of Session, without model and optimizer."""
    args = trainer.args
    return {
        "micro_batches": trainer._micro_batches,
        "micro_batch_size": int(args.per_device_train_batch_size),
        "seed": args.seed if args.data_seed is None else args.data_seed,
        "checkpoint": trainer._checkpoints,
        "save_every": _save_every(trainer, plan),
        "lr_schedulers": [trainer.lr_scheduler],
        "stateful": [trainer._after_step],
        # None unless the arguments ask for fp16.
        "grad_scaler": trainer.accelerator.scaler,
        "strategy": trainer._strategy,
    }


def _save_every(trainer: Any, plan: Plan) -> int:
    """Steps between two checkpoints; 0: only on request, after shrinks and before stops."""
    match plain(trainer.args.save_strategy):
        case "steps":
            return int(trainer.state.save_steps)
        case "epoch":
            return plan.epochs.steps(1)
    return 0


def loader_options(args: Any, dataloader: Any) -> dict[str, Any]:
    """`dataloader`: as Trainer makes it, with the columns that the model takes."""
    options = {
        "collate_fn": dataloader.collate_fn,
        "num_workers": args.dataloader_num_workers,
        "pin_memory": args.dataloader_pin_memory and args.device.type == "cuda",
        "prefetch_factor": args.dataloader_prefetch_factor,
    }
    if args.dataloader_multiprocessing_context:
        options["multiprocessing_context"] = args.dataloader_multiprocessing_context
    return options
