"""Who may ask for capacity back, in whose order, and who may not."""

from collections import Counter

import pytest

from cede.api.resources import Resources
from scheduler.cohort import Limit, Queue
from scheduler.preemptors import assignments, claims
from scheduler.snapshot import Snapshot
from tests.builders.scheduler import GPU, gpus, queue, running, snapshot, tree, waiting


def asking(seen: Snapshot, **more: object) -> list[tuple[str, bool]]:
    """(claimant, whether Kueue will reserve for it) in order."""
    return [(claim.by.job[1], claim.reserved) for claim in claims(seen, **more)]  # type: ignore[arg-type]


# of research, which owns four
FULL = (running(size=8),)


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        pytest.param([waiting("a", pods=4)], [("a", True)], id="an owner asks for its own"),
        pytest.param([waiting("a", pods=5)], [], id="nobody owes what is beyond it"),
        pytest.param(
            [waiting("a", pods=5), waiting("b", pods=4)],
            [("b", False)],
            id="who stands behind a hopeless one still asks",
        ),
        pytest.param(
            [waiting("a", pods=4), waiting("b", pods=4)],
            [("a", True), ("b", False)],
            id="the first is the one reserved for",
        ),
        pytest.param([waiting("a", active=False)], [], id="not what somebody made inactive"),
        pytest.param([waiting("a", replaces=True)], [], id="not a growth"),
        pytest.param(
            [waiting("a", each=((Resources({"cpu": 1}), 1),))],
            [],
            id="not for what the queue does not cover",
        ),
        pytest.param(
            [waiting("a", queue="research", pods=2)],
            [("a", True)],
            id="a borrower may ask within its own team only",
        ),
    ],
)
def test_claims(waits: list[object], expected: list[tuple[str, bool]]) -> None:
    assert asking(snapshot(running=FULL, waiting=tuple(waits))) == expected


def test_a_borrower_is_past_its_own_and_an_owner_is_not() -> None:
    seen = snapshot(
        running=FULL, waiting=(waiting("a", pods=4), waiting("b", queue="research", pods=2))
    )
    assert {claim.by.job[1]: claim.past_own for claim in claims(seen)} == {"a": False, "b": True}


def test_what_fits_is_left_to_kueue_and_those_behind_it_wait_for_the_next_look() -> None:
    seen = snapshot(
        running=(running(size=6),), waiting=(waiting("a", pods=2), waiting("b", pods=4))
    )
    assert asking(seen) == []


def test_a_queue_with_a_take_back_under_way_asks_for_no_second_one() -> None:
    assert asking(snapshot(running=FULL, waiting=(waiting("a"),)), busy={"vision"}) == []


def test_a_queue_that_is_not_ours_is_helped_by_nobody() -> None:
    seen = snapshot(
        tree(queue("vision", ours=False), queue("research", used=8)),
        running=FULL,
        waiting=(waiting("a"),),
    )
    assert asking(seen) == []


def test_each_choice_of_flavors_is_a_request_of_its_own() -> None:
    flavors = (((GPU,), ("a100", "h100")), (("cpu",), ("main",)))
    found = Queue("q", limits={("a100", GPU): Limit(4)}, flavors=flavors)
    asked = waiting(pods=2, each=((Resources({GPU: 1, "cpu": 500}), 2),))
    assert list(assignments(asked, found)) == [
        Counter({("a100", GPU): 2, ("main", "cpu"): 1000}),
        Counter({("h100", GPU): 2, ("main", "cpu"): 1000}),
    ]


def test_a_claim_says_what_is_missing() -> None:
    (claim,) = claims(snapshot(running=(running(size=6),), waiting=(waiting("a", pods=4),)))
    assert claim.missing == gpus(2)
