"""A surplus looks like a job of its own, although the runtime is that of its base."""

from dataclasses import replace

from cede.api.surplus import Base
from elastic_runtime.contract import SizeRequest, State, Status
from scheduler.surplus import from_runtime, to_runtime
from tests.builders.scheduler import runtime_status

BASE = Base("js", "gpt-node-0", "child", 2)


def test_the_pods_of_the_base_are_added_to_a_request() -> None:
    assert to_runtime(SizeRequest(4, "c-1"), BASE) == SizeRequest(6, "c-1")
    assert to_runtime(SizeRequest(0, "c-1"), BASE) == SizeRequest(2, "c-1")
    assert to_runtime(SizeRequest(4), None) == SizeRequest(4)


def test_the_pods_of_the_base_are_taken_from_a_status() -> None:
    status = replace(runtime_status(6, wanted=4, cession="c-1"), parked=(4, 5))
    status_of_surplus = from_runtime(status, BASE)
    assert (status_of_surplus.size, status_of_surplus.wanted) == (4, 2)
    assert (status_of_surplus.parked, status_of_surplus.cession) == ((2, 3), "c-1")
    assert status_of_surplus.state == status.state
    assert from_runtime(status, None) is status


def test_it_is_stopped_once_the_base_trains_without_it() -> None:
    assert from_runtime(runtime_status(2, wanted=2, cession="c-1"), BASE).ceded(0)
    assert not from_runtime(runtime_status(4, wanted=2, cession="c-1"), BASE).ceded(0)
    resizing = replace(runtime_status(2, wanted=2), state=State.RESIZING)
    assert not from_runtime(resizing, BASE).ceded(0)


def test_before_the_first_request_it_wants_no_pods() -> None:
    """So it is asked for the size of its Job, and trains with the base."""
    assert from_runtime(Status(state=State.TRAINING, size=2), BASE).wanted == 0
