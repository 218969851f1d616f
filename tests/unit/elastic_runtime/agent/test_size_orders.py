"""The size that was signed last holds."""

import pytest

from elastic_runtime.agent.membership_view import View
from elastic_runtime.agent.size_orders import obey
from elastic_runtime.contract import SizeRequest

NOW = 100.0
# Size 4 was requested at 50.
JOB = View(smallest=2, wanted=4, cession="c-1", ordered_at=50.0)


@pytest.mark.parametrize(
    ("request_", "sent_at", "wanted", "is_new"),
    [
        pytest.param(SizeRequest(2, "c-2"), 51.0, 2, True, id="newer"),
        pytest.param(SizeRequest(2, "c-2"), 50.0, 2, True, id="in the same millisecond"),
        pytest.param(SizeRequest(4, "c-1"), 40.0, 4, False, id="the same, late"),
        pytest.param(SizeRequest(0, "c-2"), 51.0, 0, True, id="a stop"),
    ],
)
def test_a_request_is_obeyed(
    request_: SizeRequest, sent_at: float, wanted: int, is_new: bool
) -> None:
    order = obey(JOB, request_, sent_at, NOW)
    assert (order.view.wanted, order.is_new, order.refusal) == (wanted, is_new, "")
    assert order.view.ordered_at == max(sent_at, 50.0)


def test_an_older_request_is_refused_in_a_sentence() -> None:
    order = obey(JOB, SizeRequest(8, ""), 49.5, NOW)
    assert order.view == JOB
    assert order.refusal == (
        "size 8 was requested 0.500 s before size 4, which holds: send a new request"
    )


def test_a_size_below_the_smallest_is_refused() -> None:
    with pytest.raises(ValueError, match="size is 1: the smallest allowed is 2, or 0 to stop"):
        obey(JOB, SizeRequest(1), 60.0, NOW)


def test_other_pods_settle_after_a_new_size_and_not_before_a_stop() -> None:
    assert obey(JOB, SizeRequest(2), 60.0, NOW).view.changed_at == NOW
    assert obey(JOB, SizeRequest(0), 60.0, NOW).view.changed_at == JOB.changed_at
