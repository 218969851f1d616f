"""PURE. The runtime of a base counts its own pods too; its surplus does not."""

from dataclasses import replace

from cede.api.surplus import Base
from elastic_runtime.contract import SizeRequest, State, Status


def to_runtime(request: SizeRequest, base: Base | None) -> SizeRequest:
    """The request for the whole job. A surplus of no pods leaves its base."""
    return replace(request, size=request.size + base.size) if base else request


def from_runtime(status: Status, base: Base | None) -> Status:
    """The status as if the surplus were a job of its own: it is stopped once the base trains
    without it."""
    if base is None:
        return status
    size = max(0, status.size - base.size)
    wanted = max(0, status.wanted - base.size)
    is_alone = not size and not wanted and status.state == State.TRAINING
    parked = tuple(index - base.size for index in status.parked if index >= base.size)
    state = State.STOPPED if is_alone else status.state
    return replace(status, size=size, wanted=wanted, parked=parked, state=state)
