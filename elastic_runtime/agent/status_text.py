"""What a job is busy with, in words for whoever waits for it. Pure."""

from collections.abc import Iterable

from elastic_runtime.agent.membership import View
from elastic_runtime.contract import State

# pods named one by one
MOST = 8
# characters of a message: a status of more than 1,000 would be refused as a whole, and a pod's word
# past 64 KiB
LONGEST = 500


def busy(state: str, view: View, since: float, durable_step: int) -> str:
    """One sentence. `since`: who was not heard after it, by the coordinator's clock, is silent."""
    record = view.record
    heard = {i: m for i, m in view.members.items() if m.heard >= since}
    match state:
        case State.STARTING:
            ready = {i for i, m in heard.items() if m.ready}
            coming = [i for i in range(view.smallest) if i not in ready]
            return f"waiting for {_pods(coming)}" if coming else "gathering whoever is ready"
        case State.RESIZING:
            outside = [
                i
                for i in record.members
                if i not in heard or heard[i].generation != record.generation
            ]
            why = "recovering from a loss" if record.abrupt else "changing size"
            return (
                f"{why}: generation {record.generation} waits for {_pods(outside)}"
                if outside
                else f"{why}: at the end of this step"
            )
        case State.STOPPING:
            return (
                f"saving before it stops: waiting for "
                f"{_pods(i for i in record.members if i not in heard or not heard[i].parked)}"
            )
        case State.STOPPED:
            return (
                f"nothing: saved at step {durable_step}, all pods may go"
                if durable_step
                else "nothing: all pods may go, nothing is saved"
            )
        case State.FINISHED:
            return "nothing: the last step is done"
    coming = [
        i
        for i, m in sorted(heard.items())
        if i not in record.members and not m.ready and not m.leaving
    ]
    return f"training; getting ready to join: {_pods(coming)}" if coming else "training"


def _pods(indexes: Iterable[int]) -> str:
    named = sorted(indexes)
    if not named:
        return "no pod"
    more = f" and {len(named) - MOST} more" if len(named) > MOST else ""
    return ("pod " if len(named) == 1 else "pods ") + ", ".join(map(str, named[:MOST])) + more


def cut(message: object) -> str:
    """Its words, at most `LONGEST` characters of them; … stands for the rest."""
    words = str(message)
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
