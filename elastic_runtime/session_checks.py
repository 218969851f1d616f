"""Mistakes in what a session is created with, each in one line that names its cure."""

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from elastic_runtime import argument_checks, directory_checks
from elastic_runtime.mistake import Mistake
from elastic_runtime.state import optimizers

P = ParamSpec("P")
R = TypeVar("R")
# What to use in place of an argument that other libraries have.
OTHER_NAMES = {
    "lr_schedulers=[...]": ("scheduler", "lr_scheduler", "schedulers", "schedules"),
    "stateful=[...]": ("also", "state", "extra_state"),
    "micro_batch_size=...": ("batch_size", "train_batch_size", "per_device_train_batch_size"),
    "micro_batches=..., of one step over all workers": (
        "accumulation_steps",
        "grad_accum_steps",
        "gradient_accumulation_steps",
    ),
    "optimizer=[...]": ("optimizers", "optims"),
    "samples=len(dataset)": ("num_samples",),
    "data=...": ("dataset", "train_dataset"),
    "data=DataLoader(...)": ("loader", "dataloader", "train_loader", "train_dataloader"),
    "checkpoint=...": ("checkpoint_dir", "checkpoint_path", "output_dir", "save_dir"),
    "session.steps(number)": ("steps", "max_steps", "num_steps", "until", "epochs", "num_epochs"),
    "clip=...": ("grad_clip", "max_norm", "max_grad_norm", "gradient_clip_val"),
    "model.to(device) before": ("device",),
    "grad_scaler=torch.amp.GradScaler(device.type)": (
        "scaler",
        "loss_scale",
        "loss_scaling",
        "fp16",
        "amp",
        "use_amp",
    ),
}
# Where the module that torch.compile returns has the plain one.
COMPILED_NAME = "_orig_mod"
# What to give for an argument that is missing.
NEEDED = {
    "model": "give it the model first",
    "optimizer": "give it the optimizer of the model's parameters second",
    "micro_batches": "give micro_batches=..., how many a step has at every size of the job",
    "data": "give it a dataset, or the number of its samples, first",
    "function": "give it a function of a micro-batch that returns sums by name, second",
    "value": "give what was measured of the state, such as its loss",
    "until": argument_checks.UNTIL,
    "max_norm": argument_checks.NORM,
    "wrap": argument_checks.WRAP,
}


class ModelChecks(Protocol):
    """A strategy."""

    def model_mistakes(self, model: torch.nn.Module) -> Iterable[str]:
        """Why it cannot train this model."""


def checks_arguments(
    name: str, unless: Callable[[Any], bool] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator: a call of it, by its `name`, with wrong arguments raises Mistake.

    `unless`: what is true of the object of a method while none of its calls is a mistake.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        every = inspect.signature(function).parameters
        parameters = [parameter for parameter in every.values() if parameter.name != "self"]
        selves = len(every) - len(parameters)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            given = args[selves:]
            message = "; ".join(argument_mistakes(name, parameters, given, kwargs))
            if message and not (unless and unless(args[0])):
                raise Mistake(message)
            return function(*args, **kwargs)

        return call

    return decorate


def argument_mistakes(
    name: str, parameters: Sequence[inspect.Parameter], unnamed: Any, named: Mapping[str, Any]
) -> Iterator[str]:
    """Of a call of `name`. `unnamed`: the arguments that it got without a name."""
    own = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    every = [parameter.name for parameter in own]
    positional = [p.name for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
    for wrong in named:
        # With **options, another function takes it.
        if wrong not in every and len(own) == len(parameters):
            yield f"{name} has no argument {wrong}: {_cure_of_name(wrong, every)}"
    if len(unnamed) > len(positional):
        yield (
            f"{name} was given {len(unnamed)} arguments without names, and takes "
            f"{' and '.join(positional)}: name the others, such as micro_batches=16"
        )
        return
    by_position = dict(zip(positional, unnamed, strict=False))
    given = {*by_position, *named}
    for parameter in own:
        if parameter.default is parameter.empty and parameter.name not in given:
            yield f"{name} needs {parameter.name}: {NEEDED[parameter.name]}"
    defaults = {parameter.name: parameter.default for parameter in own}
    yield from argument_checks.value_mistakes(by_position, defaults, f" of {name}")
    yield from argument_checks.value_mistakes(named, defaults)


def _cure_of_name(wrong: str, names: Sequence[str]) -> str:
    for cure, others in OTHER_NAMES.items():
        if wrong in others:
            return f"use {cure}"
    similar = difflib.get_close_matches(wrong, names, 1)
    return f"use {similar[0]}" if similar else f"remove it; it has {', '.join(names)}"


def session_mistakes(
    model: torch.nn.Module, optimizer: Any, strategy: ModelChecks
) -> Iterator[str]:
    """`optimizer`: one or several, as the script gives them."""
    by_name = optimizers.by_name(optimizer)
    others = [given for given in by_name.values() if not hasattr(given, "param_groups")]
    if not isinstance(model, torch.nn.Module) or others or not by_name:
        kind = type(others[0] if others else optimizer).__name__
        yield (
            f"the session is given {type(model).__name__} and {kind}: give it the model first, "
            "then its optimizer, or several as a list or by name"
        )
        return
    if isinstance(model, DistributedDataParallel | DataParallel):
        yield (
            f"the model is wrapped in {type(model).__name__}: pass the model itself, the session "
            "averages gradients"
        )
        return
    yield from sparse_mistakes(model, by_name)
    if on_gpus := [parameter for parameter in model.parameters() if parameter.is_cuda]:
        yield from device_mistakes(on_gpus)
    yield from strategy.model_mistakes(model)
    if not any(parameter.requires_grad for parameter in model.parameters()):
        yield (
            "the model has no parameter that requires a gradient: set requires_grad on those that "
            "are to be trained"
        )
    yield from optimizers.mistakes(model, by_name)


def sparse_mistakes(model: torch.nn.Module, by_name: Mapping[str, Any]) -> Iterator[str]:
    """What a session cannot do: it sums dense gradients, and steps once for each."""
    for optimizer in by_name.values():
        if isinstance(optimizer, torch.optim.SparseAdam):
            yield (
                "SparseAdam needs sparse gradients, and the session sums dense ones: use Adam or "
                "AdamW, and embeddings with sparse=False"
            )
        elif isinstance(optimizer, torch.optim.LBFGS):
            yield (
                "LBFGS computes the loss several times in a step, and the session steps once for "
                "each gradient: use an optimizer that needs no closure, such as AdamW"
            )
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.sparse:
            yield (
                f"{name or type(module).__name__} has sparse=True, and the session sums dense "
                "gradients: build it with sparse=False"
            )
            return


def job_mistakes(micro_batches: Any, largest: int, *, has_session: bool) -> Iterator[str]:
    """`largest`: how many workers the allowed sizes may give the job. `has_session`: this worker
    has had a session already."""
    if isinstance(micro_batches, Integral) and 0 < int(micro_batches) < largest:
        yield (
            f"micro_batches is {micro_batches}, but the job may have {largest} workers, and those "
            f"without a micro-batch would do nothing: give {largest} or more, or leave the larger "
            "sizes out of cede.dev/sizes"
        )
    if has_session:
        yield (
            "this process has a session already, and a job has one: put all networks into one "
            "model (torch.nn.ModuleDict) with its optimizers, or start a second job"
        )


def plain_model(model: torch.nn.Module) -> torch.nn.Module:
    """The model itself, if it is compiled: its names would fit no plain model's checkpoint."""
    # An import of the class would import the compiler.
    is_compiled = type(model).__name__ == "OptimizedModule"
    return getattr(model, COMPILED_NAME, model) if is_compiled else model


def compiled_mistakes(model: torch.nn.Module) -> Iterator[str]:
    """Of a module within the model that `torch.compile` has replaced, with the names of all in it.

    `model`: not compiled itself.
    """
    for name, _ in model.named_modules():
        module, _, inner = name.rpartition(".")
        if inner == COMPILED_NAME:
            yield (
                f"{module or 'the model'} was replaced by torch.compile, so a checkpoint would "
                "have other names than those of the plain model: use module.compile() in place of "
                "torch.compile(module), which keeps the names"
            )
            return


def device_mistakes(parameters: Iterable[torch.nn.Parameter]) -> Iterator[str]:
    first, *others = dict.fromkeys(parameter.device for parameter in parameters)
    if others:
        yield f"the model is on {first} and on {others[0]}: put it on one device"


def gpu_mistakes(number: int, count: int) -> Iterator[str]:
    """`number`: of this worker on its machine. `count`: GPUs that it can use."""
    if number >= count:
        yield (
            f"this is worker {number} of its machine (counted from 0), which has {count} GPUs: "
            f"start at most {count} workers there, or train on the CPU"
        )


def save_mistakes(
    shared: str | Path | None, local: str | Path | None, local_save_every: int
) -> Iterator[str]:
    """`shared`, `local`: the directories `checkpoint` and `local_checkpoint`."""
    if local and local_save_every < 1:
        yield (
            f"local_save_every is {local_save_every}: give the number of steps between two saves "
            "in local_checkpoint, at least 1"
        )
    if local_save_every and not local:
        yield (
            f"local_save_every is {local_save_every} without local_checkpoint: set "
            "local_checkpoint to a directory on the pod's own disk"
        )
    for name, directory in (("checkpoint", shared), ("local_checkpoint", local)):
        if directory:
            yield from directory_checks.directory_mistakes(name, Path(directory))
    if local and shared and Path(local).absolute() == Path(shared).absolute():
        yield (
            f"checkpoint and local_checkpoint are both {local}: set checkpoint to a directory "
            "that all pods share, and local_checkpoint to one on the pod's own disk"
        )
    if local and not shared:
        yield (
            "local_checkpoint is set without checkpoint, but a pod's disk is lost with the pod: "
            "also set checkpoint to a directory that all pods share"
        )


def unused_mistakes(save_every: int, keep: int, keep_every: int) -> Iterator[str]:
    """Of a session without `checkpoint`."""
    given = {"save_every": save_every, "keep": keep != 2 and keep, "keep_every": keep_every}
    for name, value in given.items():
        if value:
            yield (
                f"{name} is {value} without checkpoint: set checkpoint to a directory that all "
                f"pods share, or leave {name} out"
            )


def lr_scheduler_mistakes(lr_schedulers: Iterable[Any]) -> Iterator[str]:
    for scheduler in lr_schedulers:
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            yield (
                "ReduceLROnPlateau needs a metric, and the session calls step() without one: use "
                "a scheduler that depends on the step only, such as LambdaLR"
            )
