"""PURE. Which requested size holds: the one that was signed last, however late another arrives."""

from dataclasses import dataclass, replace

from elastic_runtime.agent.membership_view import View
from elastic_runtime.contract import SizeRequest


@dataclass(frozen=True, slots=True)
class Order:
    """What became of a request."""

    view: View
    # It changed the size or the Cession.
    is_new: bool = False
    # Why it is not obeyed; empty if it is.
    refusal: str = ""


def obey(view: View, request: SizeRequest, sent_at: float, now: float) -> Order:
    """The view after the request, which its sender signed at `sent_at`, in Unix seconds.

    Raises ValueError for a size that the job cannot have.
    """
    if request.size and request.size < view.smallest:
        raise ValueError(
            f"size is {request.size}: the smallest allowed is {view.smallest}, or 0 to stop"
        )
    is_new = (request.size, request.cession) != (view.wanted, view.cession)
    if is_new and sent_at < view.ordered_at:
        return Order(
            view,
            refusal=f"size {request.size} was requested {view.ordered_at - sent_at:.3f} s before "
            f"size {view.wanted}, which holds: send a new request",
        )
    view = replace(view, ordered_at=max(sent_at, view.ordered_at))
    if is_new:
        view = replace(
            view,
            wanted=request.size,
            cession=request.cession,
            changed_at=now if request.size else view.changed_at,
        )
    return Order(view, is_new)
