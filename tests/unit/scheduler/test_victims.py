"""Who gives, and how little: shrinks before stops, only what Kueue's own rules allow, all that is
needed or nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.preemptors import claims
from scheduler.snapshot import Running, Waiting
from scheduler.victims import choose
from tests.builders.scheduler import KEY, NOW, queue, running, says, snapshot, tree, waiting


def given_up(jobs: list[Running], asks: Waiting | None = None) -> dict[str, int]:
    """By job: the size it is to have."""
    seen = snapshot(running=tuple(jobs), waiting=(asks or waiting(),))
    found = [choose(claim, seen.tree, jobs, NOW, 60) for claim in claims(seen)]
    return {give.job.job[1]: give.to for way in found for give in way.gives}


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        pytest.param([running(size=8)], {"gpt": 4}, id="gives what is needed, no more"),
        pytest.param([running(size=8, allowed=(1, 3, 8))], {"gpt": 3}, id="its own sizes only"),
        pytest.param(
            [running("a", size=4), running("b", size=4, priority=10)],
            {"a": 2, "b": 2},
            id="several share when one cannot",
        ),
        pytest.param(
            [running("a", size=6), running("b", size=2, allowed=())],
            {"a": 2},
            id="a shrink before a stop",
        ),
        pytest.param(
            [running(size=8, allowed=())], {"gpt": 0}, id="a stop where nothing can shrink"
        ),
        pytest.param(
            [running(size=8, since=NOW - 30)], {}, id="nothing from a job that has just started"
        ),
        pytest.param(
            [running(size=8, active=False)], {}, id="nothing from one that is being stopped"
        ),
        pytest.param([running(size=4)], {}, id="nothing is taken where it fits"),
        pytest.param(
            [
                running(
                    "a", size=4, allowed=(), status=says(step=100, durableStep=1, stepSeconds=1.0)
                ),
                running(
                    "b", size=4, allowed=(), status=says(step=100, durableStep=99, stepSeconds=1.0)
                ),
            ],
            {"b": 0},
            id="of two to stop, the one with less unsaved work",
        ),
    ],
)
def test_an_owner_takes_back_its_own(jobs: list[Running], expected: dict[str, int]) -> None:
    assert given_up(jobs) == expected


def test_a_claim_past_its_own_quota_takes_from_lower_priority_in_its_team_only() -> None:
    jobs = [running("low", "vision", size=4, priority=10), running("other", "research", size=4)]
    assert given_up(jobs, waiting(pods=2, priority=100)) == {"low": 2}


def test_a_team_that_said_never_is_spared_its_own_important_jobs() -> None:
    jobs = [running("low", "vision", size=4, priority=10), running("other", "research", size=4)]
    seen = snapshot(
        tree(queue("vision", used=4, preempts_own=False), queue("research", used=4)),
        running=tuple(jobs),
        waiting=(waiting(pods=2),),
    )
    assert all(not choose(c, seen.tree, jobs, NOW, 0).gives for c in claims(seen))


def test_a_lender_keeps_its_own_where_another_who_borrows_can_give() -> None:
    jobs = (
        running("a", "research", size=8, allowed=(1, 8)),
        running("b", "other", size=6, allowed=tuple(range(1, 7))),
    )
    seen = snapshot(
        tree(queue("vision", 2), queue("research", 6, used=8), queue("other", 4, used=6), own=2),
        running=jobs,
        waiting=(waiting(pods=2),),
    )
    (claim,) = claims(seen)
    assert {give.job.job[1]: give.to for give in choose(claim, seen.tree, jobs, NOW, 0).gives} == {
        "b": 4
    }


def test_who_was_asked_for_too_much_because_of_anothers_coarse_sizes_keeps_the_rest() -> None:
    jobs = [
        running("fine", size=4, allowed=(1, 2, 3, 4), priority=10),
        running("coarse", size=4, allowed=(1, 4)),
    ]
    assert given_up(jobs, waiting(pods=4)) == {"fine": 3, "coarse": 1}


def test_a_claim_that_needs_its_own_lower_priority_too_takes_from_it_before_it_takes_from_others() -> (
    None
):
    jobs = [
        running("low", "vision", size=2, priority=10, allowed=(1, 2)),
        running("other", "research", size=6),
    ]
    assert given_up(jobs, waiting(pods=3, priority=100)) == {"low": 1, "other": 4}


def test_the_plan_says_why_in_one_sentence() -> None:
    seen = snapshot(running=(running(),), waiting=(waiting(),))
    (claim,) = claims(seen)
    assert choose(claim, seen.tree, seen.running, NOW, 0).why == (
        "claim (vision) takes back its own: it lacks 4 nvidia.com/gpu; gpt (research) shrinks "
        "from 8 to 4"
    )


jobs_of_research = st.lists(
    st.tuples(st.integers(1, 6), st.booleans(), st.integers(0, 100)), min_size=1, max_size=5
)


# a busy machine is no failure
@settings(deadline=None)
@given(shapes=jobs_of_research, pods=st.integers(1, 6), nominal=st.integers(0, 8))
def test_all_or_nothing_never_below_the_smallest_and_only_from_queues_that_borrow(
    shapes: list[tuple[int, bool, int]], pods: int, nominal: int
) -> None:
    jobs = [
        running(
            str(i),
            size=size,
            allowed=tuple(range(1, size + 1)) if elastic else (),
            priority=priority,
        )
        for i, (size, elastic, priority) in enumerate(shapes)
    ]
    used = sum(size for size, _, _ in shapes)
    found = tree(queue("vision", 6), queue("research", nominal, used=used))
    seen = snapshot(found, running=tuple(jobs), waiting=(waiting(pods=pods),))
    for claim in claims(seen):
        way = choose(claim, seen.tree, jobs, NOW, 0)
        after = seen.tree
        for give in way.gives:
            assert give.to < give.job.size
            assert give.stop or give.to in give.job.allowed
            assert after.queues["research"].usage[KEY] > nominal
            after = after.using("research", give.freed(), -1)
        assert not way.gives or after.fits("vision", claim.request)
