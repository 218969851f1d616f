"""PURE. The sentence in a job's status: what the job is busy with, or waits for."""

from collections.abc import Iterable, Mapping
from statistics import median_low

from elastic_runtime.agent.membership_view import View, are_enough
from elastic_runtime.contract import State

# Pods that a sentence names one by one.
MAX_NAMED_PODS = 8
# Characters. A status with a message of more than 1,000 is refused, and so is a report of more
# than 64 KiB.
MAX_MESSAGE = 500
# A pod is slow if its part of a step takes so many times that of the median pod. Micro-batches that
# cannot be divided evenly explain a factor of 2.
SLOW_TIMES = 2.5


def describe(state: str, view: View, silent_before: float, durable_step: int) -> str:
    """One sentence. Pods that last reported earlier than `silent_before` count as silent."""
    match state:
        case State.STARTING:
            return _starting(view, silent_before)
        case State.RESIZING:
            return _resizing(view, silent_before)
        case State.STOPPING:
            saving = _unparked(view, silent_before)
            return f"saving before it stops: waiting for {_names(saving)}"
        case State.STOPPED if durable_step:
            return f"nothing: saved at step {durable_step}, all pods may go"
        case State.STOPPED:
            return "nothing: all pods may go, nothing is saved"
        case State.FINISHED:
            return "nothing: the last step is done"
    return _training(view, silent_before)


def _starting(view: View, silent_before: float) -> str:
    wanted = view.wanted
    ready = {
        index
        for index, member in view.members.items()
        if member.ready
        and not member.leaving
        and member.reported_at >= silent_before
        and (wanted is None or index < wanted)
    }
    if are_enough(view, ready):
        return "gathering the pods that are ready"
    base = [index for index in range(view.base) if index not in ready]
    first = base or [index for index in range(view.smallest) if index not in ready]
    count = view.smallest - len(ready)
    if base or count == len(first):
        return f"waiting for {_names(first)}"
    return f"waiting for {count} of {_names(first)}, or others"


def _resizing(view: View, silent_before: float) -> str:
    record = view.record
    if not record.members:
        return f"starting from the newest checkpoint: {_starting(view, silent_before)}"
    formed = {
        index
        for index, member in view.members.items()
        if member.generation == record.generation and member.reported_at >= silent_before
    }
    outside = [index for index in record.members if index not in formed]
    cause = "recovering from a loss" if record.abrupt else "changing size"
    if not outside:
        return f"{cause}: at the end of this step"
    return f"{cause}: generation {record.generation} waits for {_names(outside)}"


def _unparked(view: View, silent_before: float) -> list[int]:
    parked = {
        index
        for index, member in view.members.items()
        if member.parked and member.reported_at >= silent_before
    }
    return [index for index in view.record.members if index not in parked]


def _training(view: View, silent_before: float) -> str:
    members = set(view.record.members)
    preparing = [
        index
        for index, member in view.members.items()
        if member.reported_at >= silent_before
        and index not in members
        and not member.ready
        and not member.leaving
    ]
    missing = [
        index
        for index in range(view.wanted or 0)
        if index not in view.members or view.members[index].reported_at < silent_before
    ]
    ended = [index for index in members if index in view.members and view.members[index].ended]
    waits = 0 < len(ended) < len(members)
    return "; ".join(
        [
            f"training with {len(members)}" if missing else "training",
            *([f"the script has ended in {_names(ended)}, not in all"] if waits else []),
            *([f"getting ready to join: {_names(preparing)}"] if preparing else []),
            *([f"not there: {_names(missing)}"] if missing else []),
        ]
    )


def slow_pod(own_seconds: Mapping[int, float]) -> str:
    """The pod that the others wait for, after a semicolon; empty if all are about as fast.

    `own_seconds`: by pod, for its own part of a step.
    """
    if len(own_seconds) < 2:
        return ""
    slowest = max(own_seconds, key=lambda index: own_seconds[index])
    usual_s = median_low(own_seconds.values())
    if not own_seconds[slowest] > SLOW_TIMES * usual_s > 0:
        return ""
    return (
        f"; waits for pod {slowest}: its part of a step takes {own_seconds[slowest]:.3g} s, "
        f"that of others {usual_s:.3g} s"
    )


def _names(indexes: Iterable[int]) -> str:
    pods = sorted(indexes)
    if not pods:
        return "no pod"
    noun = "pod" if len(pods) == 1 else "pods"
    names = ", ".join(map(str, pods[:MAX_NAMED_PODS]))
    surplus = len(pods) - MAX_NAMED_PODS
    return f"{noun} {names} and {surplus} more" if surplus > 0 else f"{noun} {names}"


def message(failures: Mapping[int, str], *others: str) -> str:
    """What a person should know of or do. `failures`: what became of pods, by pod."""
    by_failure: dict[str, list[int]] = {}
    for index, failure in failures.items():
        by_failure.setdefault(failure, []).append(index)
    pods = [f"{_names(indexes)} {failure}" for failure, indexes in by_failure.items()]
    return shorten("; ".join(filter(None, [*pods, *others])))


def shorten(message: str) -> str:
    """At most `MAX_MESSAGE` characters; … stands for the ones left out."""
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
