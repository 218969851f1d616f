"""Finds mistakes in a training script and reports each in one line that names its cure.

A function named `..._mistakes` yields one message for each mistake; `raise_mistakes` raises
a Mistake with all of them. What a session is created with: session_checks.py.
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from elastic_runtime.mistake import Mistake
from elastic_runtime.state.optimizers import Optimizers
from elastic_runtime.state.state_tree import pack, unpack

LOOP_LEFT_EARLY = (
    "step %d is not committed: the script left the loop over session.steps(%d) before its end; to "
    "end the job early, call session.stop() in place of break, and let the body run to its end"
)
NEVER_BEGAN = (
    "the script ended before the first step of its session: loop over session.steps(...), or call "
    "session.begin(); a script with nothing to train loops over session.steps(0)"
)
NOTHING_TO_DO = (
    "the job has ended already, at step %d, so %s has no steps: pass a larger "
    "number to train on, or use another checkpoint directory to begin anew"
)
LATE_GRADIENT = (
    "a gradient arrived after its bucket was reduced: pass the whole loss of a micro-batch to "
    "step.backward, and use checkpoint(..., use_reentrant=False)"
)
SECOND_LOOP = (
    "session.steps was called a second time, but a job ends with its first loop: use one loop over "
    "all steps and branch on step.number"
)
TWO_LOOPS = (
    "session.steps and session.begin drive the same loop: use either `for step in session.steps`, "
    "or session.begin() and session.commit()"
)
BEGIN_TWICE = (
    "session.begin was called while step %d is not committed: call session.commit() after its "
    "micro-batches, then session.begin()"
)
COMMIT_WITHOUT_BEGIN = (
    "session.commit was called with no step in flight: call session.begin() first, and "
    "session.commit() once for each step that it returns"
)
OTHER_END = "session.begin(%s) follows %s: give the same number in every call, or only in the first"
LOOP_FAILED = (
    "session.begin and session.commit cannot go on after an error: let it end the script, which is "
    "then started again"
)
STEP_LEFT_OPEN = (
    "step %d is not committed: the script ended between session.begin and session.commit; to end "
    "the job early, call session.stop() and commit the step"
)
END_NOT_REACHED = (
    "the job has not ended, at step %d: the script ended after session.commit; call "
    "session.begin() until it returns None, which also saves the last step"
)
SEVERAL_OPTIMIZERS = (
    "the session has several optimizers: use session.optimizers[name] in place of session.optimizer"
)
RANK_UNKNOWN = (
    "session.rank and session.world are known only inside the loop over steps: move code that a "
    "single process runs into the loop, or out of the job"
)
UNKNOWN_SCHEDULER = (
    "an optimizer has an lr_scheduler that the session does not know, so it is not saved, and is "
    "stepped twice when a step is repeated: pass it in lr_schedulers=[...] and do not step it"
)
IDLE_RANKS = (
    "%d workers share %d micro-batches, so %d of them do nothing: use at least as many "
    "micro-batches as workers, or a smaller size"
)
NO_INNER_LOOP = (
    "a step has no samples of its own: iterate over its micro-batches, `for batch in step`, and "
    "use batch.indices"
)
NO_DATA = (
    "the session was given no data: give it, Session(data=...), or use the batches of "
    "session.loader or session.streams"
)
SYNC_BATCH_NORM = (
    "SyncBatchNorm does not see the samples of other workers here: use BatchNorm, which is alike "
    "at every size, or GroupNorm"
)
GRADIENTS_CLEARED = (
    "gradients were cleared between step.backward and the end of the step: call step.backward "
    "without zero_grad(), the session clears gradients"
)
GRADIENTS_CHANGED = (
    "gradients were changed between step.backward and the end of the step, when they are those of "
    "one worker: use step.clip(norm) in place of clip_grad_norm_, remove zero_grad(), and make "
    "other changes in a hook, by parameter.register_hook"
)
PARAMETERS_CHANGED = (
    "parameter %s was %s after the session was created, and a session trains those that it was "
    "given: create all parameters before it, and write new values into them in place"
)


class ParameterPlace(NamedTuple):
    name: str
    parameter: torch.nn.Parameter
    device: torch.device
    dtype: torch.dtype


def raise_mistakes(messages: Iterable[str]) -> None:
    """Raises Mistake with all messages in one line, if there are any."""
    if text := "; ".join(messages):
        raise Mistake(text)


# --- the optimizer --------------------------------------------------------------------------------
def has_unknown_scheduler(optimizers: Optimizers, lr_schedulers: Sequence[Any]) -> bool:
    """Whether an lr_scheduler was created for an optimizer, and the session has none for it.

    A scheduler that does not name its optimizer may be of any; of a single one all are.
    """
    known = [getattr(scheduler, "optimizer", None) for scheduler in lr_schedulers]
    if None in known or (known and len(optimizers) == 1):
        return False
    ids = {id(optimizer) for optimizer in known}
    return any(
        "initial_lr" in group
        for optimizer in optimizers
        if id(optimizer) not in ids
        for group in optimizer.param_groups
    )


# --- what holds when the first step begins --------------------------------------------------------
def start_mistakes(
    before: Sequence[ParameterPlace],
    now: Sequence[ParameterPlace],
    *,
    has_data: bool,
    trains_elsewhere: bool,
) -> Iterator[str]:
    """`before`: the parameters when the session was created.

    `trains_elsewhere`: another session trains this model.
    """
    if trains_elsewhere:
        yield (
            "another session trains this model, and its loop has not ended: end that loop first, "
            "or build the model anew"
        )
    yield from _model_change_mistakes(before, now)
    if not has_data:
        yield (
            "the session has no data: give samples=len(dataset), or use session.loader(dataset) or "
            "session.streams(open_stream)"
        )


def parameter_places(model: torch.nn.Module) -> list[ParameterPlace]:
    return [
        ParameterPlace(name, parameter, parameter.device, parameter.dtype)
        for name, parameter in model.named_parameters()
    ]


def _model_change_mistakes(
    before: Sequence[ParameterPlace], now: Sequence[ParameterPlace]
) -> Iterator[str]:
    for old, new in zip(before, now, strict=False):
        if (old.device, old.dtype) != (new.device, new.dtype):
            yield (
                f"the model was {old.dtype} on {old.device} when the session was created and is "
                f"now {new.dtype} on {new.device}: move or convert it before you create the session"
            )
            return
        if old.parameter is not new.parameter:
            break
    yield from change_mistakes(
        {place.name: place.parameter for place in before},
        {place.name: place.parameter for place in now},
    )


def change_mistakes(
    before: Mapping[str, torch.nn.Parameter], now: Mapping[str, torch.nn.Parameter]
) -> Iterator[str]:
    """Of a model that has other parameters, by name, than before. They may have other names."""
    known = {*before.values()}
    for name, parameter in now.items():
        if parameter not in known:
            yield PARAMETERS_CHANGED % (name, "replaced" if name in before else "added")
            return
    present = {*now.values()}
    for name, parameter in before.items():
        if parameter not in present:
            yield PARAMETERS_CHANGED % (name, "removed")
            return


def stateful_mistakes(stateful: Iterable[Any]) -> Iterator[str]:
    for item in stateful:
        if not (hasattr(item, "state_dict") and hasattr(item, "load_state_dict")):
            yield (
                f"{type(item).__name__} in stateful=[...] has no state_dict and load_state_dict: "
                "pass an object that has both"
            )
            continue
        try:
            unpack(pack(item.state_dict()))
        except (pickle.PickleError, AttributeError, TypeError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            yield (
                f"the state of {type(item).__name__} is not plain data ({reason[:100]}): use "
                "numbers, strings, lists, dicts and tensors only"
            )


# --- a step ---------------------------------------------------------------------------------------
def backward_mistakes(step: int, pending: int | None, loss: Any) -> Iterator[str]:
    """`loss`: what the script passed. `pending`: the micro-batch that still needs its backward
    pass, None if there is none."""
    if pending is None:
        yield (
            f"step.backward was called in step {step} with no micro-batch pending: call it exactly "
            "once in each iteration of `for batch in step`"
        )
    elif not isinstance(loss, torch.Tensor):
        cure = "pass its .loss" if hasattr(loss, "loss") else "pass the tensor, without .item()"
        yield f"the loss of micro-batch {pending} is a {type(loss).__name__}: {cure}"
    elif loss.numel() != 1:
        yield (
            f"the loss of micro-batch {pending} has shape {tuple(loss.shape)}: pass its mean, a "
            "single number"
        )
    elif not loss.requires_grad:
        yield (
            f"the loss of micro-batch {pending} does not depend on any parameter: compute it "
            "without no_grad() and without detach()"
        )


def missing_backward_mistakes(step: int, pending: int | None) -> Iterator[str]:
    """The script asks for the next micro-batch, or for the next step."""
    if pending is not None:
        yield (
            f"micro-batch {pending} of step {step} had no step.backward(loss): call it once for "
            "each micro-batch, in place of loss.backward()"
        )


def unfinished_step_mistakes(step: int, pending: int | None, remaining: int) -> Iterator[str]:
    """`remaining`: how many micro-batches of this rank the script has not taken."""
    if remaining:
        yield (
            f"step {step} ended with {remaining} of its micro-batches not taken: run `for batch in "
            "step` to its end"
        )
    else:
        yield from missing_backward_mistakes(step, pending)


GradientVersions = list[tuple[torch.nn.Parameter, int | None]]


def gradient_versions(parameters: Iterable[torch.nn.Parameter]) -> GradientVersions:
    """How often each gradient was written; None for a parameter that has none."""
    return [(p, None if p.grad is None else p.grad._version) for p in parameters]


def gradient_mistakes(before: GradientVersions) -> Iterator[str]:
    """`before`: `gradient_versions` when the session or a backward pass last wrote them."""
    now = gradient_versions(parameter for parameter, _ in before)
    changes = [(old, new) for (_, old), (_, new) in zip(before, now, strict=True) if old != new]
    if any(new is None for _, new in changes):
        yield GRADIENTS_CLEARED
    elif changes:
        yield GRADIENTS_CHANGED


def step_counts(lr_schedulers: Iterable[Any]) -> list[int | None]:
    """How often each was stepped; None for a scheduler that does not count."""
    return [getattr(scheduler, "last_epoch", None) for scheduler in lr_schedulers]


def scheduler_step_mistakes(
    counts_before: Sequence[int | None], lr_schedulers: Sequence[Any]
) -> Iterator[str]:
    """`counts_before`: `step_counts` when the step began."""
    counts = step_counts(lr_schedulers)
    for scheduler, before, now in zip(lr_schedulers, counts_before, counts, strict=True):
        if before != now:
            yield (
                f"{type(scheduler).__name__}.step was called by the script: remove the call, the "
                "session steps lr_schedulers when a step is committed"
            )
