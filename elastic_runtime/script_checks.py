"""What scripts get wrong, each said in a line that names it and its cure."""

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from torch.nn.parallel import DataParallel, DistributedDataParallel

from elastic_runtime.distributed.state_transfer import pack, unpack

log = logging.getLogger(__name__)
LEFT = (
    "step %d is not committed: the loop over session.steps(%d) was left by break, return or an "
    "error; to end early, give it another end"
)
LATE = (
    "a gradient came after its bucket had gone: give step.backward all of a micro-batch's "
    "loss, and checkpoint() use_reentrant=False"
)
AGAIN = (
    "session.steps was called a second time: the job ends with the first; take one loop over "
    "all steps, and look at step.number"
)
STEPPED = (
    "optimizer.step was called by the script: leave it out, the session steps when a step "
    "of all ranks is committed"
)
EARLY = (
    "session.rank and session.world are known in the loop over session.steps, not before: what "
    "one process is to do once, it does there, "
    "or outside of the job"
)
DROPPED = (
    "gradients were dropped between step.backward and the end of the step: leave zero_grad "
    "out, every step begins with none"
)


def of_session(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    samples: int | None,
    micro_batches: int,
    micro_batch_size: int,
) -> Iterator[str]:
    """Everything wrong with what a session is made of."""
    if samples is not None and (not isinstance(samples, Integral) or samples < 1):
        yield f"samples is {samples}: give the length of the dataset, at least 1"
    for name, count in (("micro_batches", micro_batches), ("micro_batch_size", micro_batch_size)):
        if not isinstance(count, Integral) or count < 1:
            yield f"{name} is {count!r}: give a whole number, at least 1"
    if isinstance(model, DistributedDataParallel | DataParallel):
        yield (
            f"the model is wrapped in {type(model).__name__}: give the bare one, the session "
            f"averages gradients"
        )
        return
    own = set(model.parameters())
    if on_gpus := [parameter for parameter in model.parameters() if parameter.is_cuda]:
        yield from of_devices(on_gpus)
    if not any(parameter.requires_grad for parameter in own):
        yield "the model has no parameter that requires a gradient: there is nothing to train"
    held = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if foreign := sum(parameter not in own for parameter in held):
        yield (
            f"{foreign} of the optimizer's {len(held)} tensors are no parameters of the model: "
            f"make it from this model's parameters()"
        )


def of_saves(
    shared: str | Path | None, save_every: int, local: str | Path | None, local_save_every: int
) -> Iterator[str]:
    """`shared`, `local`: directories."""
    if save_every < 0:
        yield (
            f"save_every is {save_every}: give a number of steps, or 0 for none but those asked for"
        )
    if local and local_save_every < 1:
        yield (
            f"local_save_every is {local_save_every}: give how many steps lie between two saves "
            f"in local_checkpoint"
        )
    if local_save_every and not local:
        yield (
            f"local_save_every is {local_save_every}, with no local_checkpoint: give a "
            f"directory on the pod's own disk"
        )
    if local and shared and Path(local).absolute() == Path(shared).absolute():
        yield (
            f"checkpoint and local_checkpoint are both {local}: give a directory that all pods "
            f"share, and one of each pod's own"
        )
    if local and not shared:
        yield (
            "local_checkpoint is given without checkpoint: a pod's disk goes with the pod, give "
            "a directory that all pods share too"
        )


def of_schedules(schedules: Iterable[Any]) -> Iterator[str]:
    for schedule in schedules:
        if isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau):
            yield (
                "ReduceLROnPlateau looks at a figure, and schedules step without one: take one "
                "that depends on the step, as LambdaLR"
            )


def ticks(schedules: Iterable[Any]) -> list[int | None]:
    """How often each was stepped, as far as it says."""
    return [getattr(schedule, "last_epoch", None) for schedule in schedules]


def of_ticks(before: Sequence[int | None], schedules: Sequence[Any]) -> Iterator[str]:
    """`before`: when the step began."""
    for schedule, was, now in zip(schedules, before, ticks(schedules), strict=True):
        if was != now:
            yield (
                f"{type(schedule).__name__}.step was called by the script: leave it out, the "
                f"session steps it when a step is committed"
            )


def let_nobody_else_step(optimizer: torch.optim.Optimizer, ours: Callable[[], bool]) -> None:
    """From now on a step of the optimizer raises ValueError unless it is `ours`: ranks that step on
    gradients of their own drift apart."""

    def refuse_others(*_: Any) -> None:
        if not ours():
            raise ValueError(STEPPED)

    # or what only looks like one
    if isinstance(optimizer, torch.optim.Optimizer):
        optimizer.register_step_pre_hook(refuse_others)


def of_start(before: Sequence["Place"] | None, now: Sequence["Place"], data: bool) -> Iterator[str]:
    """What is wrong when the first step begins. `before`: None if it began before. `data`: whether
    anybody said which samples there are."""
    if before is None:
        yield AGAIN
        return
    yield from of_move(before, now)
    if not data:
        yield (
            "nobody said what to train on: give samples=len(dataset), or use "
            "session.loader(dataset) or session.streams(open_stream)"
        )


def of_devices(parameters: Iterable[torch.nn.Parameter]) -> Iterator[str]:
    first, *others = dict.fromkeys(parameter.device for parameter in parameters)
    if others:
        yield f"the model is on {first} and on {others[0]}: put it on one device"


Place = tuple[torch.nn.Parameter, torch.device, torch.dtype]


def places(model: torch.nn.Module) -> list[Place]:
    """Where the parameters are, for `of_move`."""
    return [(parameter, parameter.device, parameter.dtype) for parameter in model.parameters()]


def of_move(before: Sequence[Place], now: Sequence[Place]) -> Iterator[str]:
    """Whether a model was moved, converted or rebuilt after its session was made."""
    for (was, device, dtype), (is_, new_device, new_dtype) in zip(before, now, strict=False):
        if (device, dtype) != (new_device, new_dtype):
            yield (
                f"the model was {dtype} on {device} when the session was made and is "
                f"{new_dtype} on {new_device}: move it before"
            )
            return
        if was is not is_:
            break
    else:
        if len(before) == len(now):
            return
    yield "the model has other parameters than when the session was made: build it whole before"


def of_backward(number: int, waiting: int | None, loss: torch.Tensor) -> Iterator[str]:
    """A call of `backward` in step `number` while micro-batch `waiting` is in the script's hands,
    or none."""
    if waiting is None:
        yield (
            f"step.backward was called in step {number} with no micro-batch in hand: call it "
            f"once in each round of `for batch in step`"
        )
    elif loss.numel() != 1:
        yield (
            f"the loss of micro-batch {waiting} has shape {tuple(loss.shape)}: give its mean, "
            f"one number"
        )
    elif not loss.requires_grad:
        yield (
            f"the loss of micro-batch {waiting} depends on no parameter: was it computed under "
            f"no_grad, or detached?"
        )


def of_pass(number: int, waiting: int | None) -> Iterator[str]:
    """The script comes back for more, with micro-batch `waiting` still in hand."""
    if waiting is not None:
        yield (
            f"micro-batch {waiting} of step {number} had no step.backward(loss): each needs it "
            f"once, in place of loss.backward()"
        )


def of_step(number: int, waiting: int | None, left: int) -> Iterator[str]:
    """A step that is to be committed with micro-batch `waiting` still in hand, or `left` not even
    taken."""
    if left:
        yield (
            f"step {number} ended with {left} of its micro-batches not taken: a step is whole, "
            f"do not leave `for batch in step` early"
        )
    else:
        yield from of_pass(number, waiting)


def refuse(found: Iterable[str]) -> None:
    """Raises ValueError with everything found, in one line."""
    if said := "; ".join(found):
        raise ValueError(said)


def of_also(also: Iterable[Any]) -> Iterator[str]:
    for part in also:
        if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
            yield (
                f"{type(part).__name__} in also=[...] has no state_dict and load_state_dict: "
                f"give an object that has both"
            )
            continue
        try:
            unpack(pack(part.state_dict()))
        except (pickle.PickleError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            why = str(error).splitlines()[0] if str(error) else type(error).__name__
            yield (
                f"the state of {type(part).__name__} is not plain data ({why[:100]}): give "
                f"numbers, texts, lists, dicts and tensors"
            )


def check_rest(state: Mapping[str, Any], also: Sequence[Any], data: Mapping[str, int]) -> None:
    """A state that a session with `also` and `data` is given. Raises ValueError if it does not fit;
    what may be meant is a line of log.

    `data`: what decides on which samples a step takes.
    """
    if len(state["also"]) != len(also):
        raise ValueError(
            f"the state holds {len(state['also'])} schedules, streams and other things, the "
            f"session has {len(also)}: "
            "give it as many, in the order of the script that saved them"
        )
    if changed := [
        f"{name} was {state['data'].get(name)} and is {now}"
        for name, now in data.items()
        if state["data"].get(name) != now
    ]:
        log.warning(
            "%s: samples are counted by steps, so some may be taken again now and others left out",
            ", ".join(changed),
        )
