"""What `fit` does not support, each in one line that names its cure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from elastic_runtime.data import given_data
from elastic_runtime.mistake import Mistake

# Where Lightning defines its hooks, which do nothing there.
BASES = re.compile(r"(lightning\.pytorch|pytorch_lightning)\.(core|callbacks\.callback)\b")
# Hooks that are not called, and what to use. The session steps the optimizer, on all workers.
HOOKS = {
    "optimizer_step": "the session steps the optimizer when a step is committed",
    "optimizer_zero_grad": "the session clears gradients",
    "lr_scheduler_step": "the session steps lr_schedulers",
    "configure_gradient_clipping": "use gradient_clip_val",
    "backward": "return the loss of training_step; the session computes gradients",
    "on_before_zero_grad": "the session clears gradients",
    "on_before_backward": "use training_step",
    "on_after_backward": "use parameter.register_hook",
    "on_before_optimizer_step": "use parameter.register_hook, or gradient_clip_val",
    "on_save_checkpoint": "pass an object with state_dict and load_state_dict in stateful=[...]",
    "on_load_checkpoint": "pass an object with state_dict and load_state_dict in stateful=[...]",
    "on_exception": "an error ends the worker, which is then started again",
}
# Options of Lightning's Trainer, and what to use.
OPTIONS = {
    "accelerator": "remove it, a worker uses its GPU if there is one",
    "devices": "remove it, the job's size says how many workers there are",
    "num_nodes": "remove it, the job's size says how many workers there are",
    "accumulate_grad_batches": "use micro_batches, of one step over all workers",
    "val_check_interval": "use validate_every, in steps",
    "gradient_clip_algorithm": "remove it, gradient_clip_val limits the 2-norm",
    "default_root_dir": "use checkpoint=DIRECTORY",
    "enable_checkpointing": "use checkpoint=DIRECTORY, or leave it out",
    "ckpt_path": "remove it, the newest checkpoint in checkpoint=DIRECTORY is continued",
    "use_distributed_sampler": "remove it, the session deals samples out",
    "sync_batchnorm": "remove it, BatchNorm sees a micro-batch at every size",
    "max_time": "interrupt the job from outside; it continues when it is started again",
    "deterministic": "use strategy=Deterministic()",
    "enable_progress_bar": "remove it, python -m elastic_runtime status shows the progress",
    "micro_batch_size": "set batch_size of the training DataLoader",
    "samples": "remove it, fit takes the dataset from the training DataLoader",
    "data": "use train_dataloaders=... or datamodule=...",
    "clip": "use gradient_clip_val=...",
    "lr_schedulers": "return them from configure_optimizers",
    "num_sanity_val_steps": "remove it, no validation runs before the first step",
}
MANUAL = (
    "%s.automatic_optimization is False, and a step is committed by all workers or by none: use "
    "automatic optimization, or a Session with a loop of your own"
)
NO_INDEX = "use a Session with session.streams and a loop of your own"
SKIPPED = (
    "%s returned -1 to skip the rest of an epoch, but all workers do the same steps: return None"
)
NO_LOSS = (
    "training_step returned %s for micro-batch %d: return the loss, or a dict with it as 'loss'; "
    "a micro-batch cannot be left out"
)
COLLECTS = (
    "validation_step collects values in self.%s, but each worker sees other samples, some of them "
    "twice: use self.log, or a Metric of torchmetrics"
)
UNKNOWN_METRIC = "%s is monitored and was not logged in validation: log it, or use one of %s"
NOT_SUMS = (
    "the metric %s keeps more than sums (%s), which are not reduced over workers: use one with "
    "states of fixed size, such as thresholds=100 for curves"
)
REDUCTION = "self.log(%r, reduce_fx=%r) is not supported in validation: use 'mean' or 'sum'"
NOT_A_NUMBER = "self.log(%r) was given a %s: give it a number, a tensor with one, or a Metric"


def raise_first(messages: Iterable[str]) -> None:
    for message in messages:
        raise Mistake(message)


def overridden(instance: Any, hook: str) -> bool:
    """Whether the instance, or its class, has a hook of its own."""
    if hook in vars(instance):
        return True
    for kind in type(instance).__mro__:
        if hook in vars(kind):
            return not BASES.match(kind.__module__)
    return False


def module_mistakes(module: Any) -> Iterator[str]:
    name = type(module).__name__
    if not hasattr(module, "training_step"):
        yield f"fit was given a {name}: give it a LightningModule"
        return
    if not module.automatic_optimization:
        yield MANUAL % name
    yield from hook_mistakes(module)


def hook_mistakes(instance: Any) -> Iterator[str]:
    for hook, cure in HOOKS.items():
        if overridden(instance, hook):
            yield f"{type(instance).__name__}.{hook} would not be called: {cure}"


def callback_mistakes(callbacks: Iterable[Any]) -> Iterator[str]:
    for callback in callbacks:
        yield from hook_mistakes(callback)


def is_a(instance: Any, name: str) -> bool:
    """Whether it is of a class of this name, of whichever of Lightning's packages."""
    return any(kind.__name__ == name for kind in type(instance).__mro__)


def option_mistakes(options: Mapping[str, Any]) -> Iterator[str]:
    """`options`: those that `fit` does not name."""
    for name in options:
        if name in OPTIONS:
            yield f"fit has no argument {name}: {OPTIONS[name]}"
    if isinstance(strategy := options.get("strategy"), str):
        yield f"strategy is {strategy!r}: leave it out, or use Sharded(wrap) or Deterministic()"


def loader_mistakes(loader: Any) -> Iterator[str]:
    """Of what train_dataloader returned."""
    if not isinstance(loader, DataLoader):
        yield (
            f"train_dataloader is a {type(loader).__name__}: give one DataLoader, of which fit "
            "takes the dataset and the options"
        )
    else:
        yield from given_data.loader_mistakes("train_dataloader", loader, NO_INDEX)


def validation_loader_mistakes(loader: Any) -> Iterator[str]:
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        yield (
            f"val_dataloader has a {type(loader).__name__} without samples by index: give a "
            "DataLoader of a dataset with a length, or a list of them"
        )
    elif loader.batch_size is None:
        yield "val_dataloader has a batch_sampler or no batch_size: give it batch_size"


def checkpoint_mistakes(callback: Any, directory: Any) -> Iterator[str]:
    """Of a ModelCheckpoint. `directory`: `checkpoint` of the session."""
    if callback.monitor is None:
        yield "ModelCheckpoint without monitor: use checkpoint=DIRECTORY, save_every and keep"
    elif callback.save_top_k != 1 or callback.save_last:
        yield (
            "ModelCheckpoint keeps the best checkpoint only: use save_top_k=1 without save_last, "
            "and keep=NUMBER for the newest"
        )
    elif callback.dirpath or callback.filename:
        yield "ModelCheckpoint has a dirpath or filename: use checkpoint=DIRECTORY"
    elif directory is None:
        yield "ModelCheckpoint needs a place for the checkpoint: use checkpoint=DIRECTORY"
