"""Every pass asks again what the preemptor needs, and from whom."""

import pytest

from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import rfc3339
from scheduler.actions import Action, RequestSize, ResizeJob, UpdateCession
from scheduler.cession import advance as advance_module
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import (
    NOW,
    admitted,
    cession,
    cohort_quota,
    pending,
    queue,
    runtime_status,
    snapshot,
)

CEDED = runtime_status(4, wanted=4, cession="c-1", step=17)


def advance(record: Cession, current: Snapshot, now: float = NOW) -> list[Action]:
    return list(advance_module.advance(record, current, now).actions)


def recorded(actions: list[Action]) -> CessionStatus:
    return next(action.status for action in actions if isinstance(action, UpdateCession))


def kinds(actions: list[Action]) -> list[str]:
    return [type(action).__name__ for action in actions]


def resizes(record: Cession, current: Snapshot) -> list[ResizeJob]:
    return [action for action in advance(record, current) if isinstance(action, ResizeJob)]


def test_nobody_releases_capacity_for_a_preemptor_that_fits_already() -> None:
    """A job ended meanwhile. The target is asked back."""
    free = cohort_quota(queue("vision"), queue("research", used=8), queue("idle"))
    ended = snapshot(free, admitted=[admitted(runtime=CEDED)], pending=[pending()])
    step = advance_module.advance(cession("Asked"), ended, NOW)
    assert not [a for a in step.actions if isinstance(a, ResizeJob | RequestSize)]
    assert not step.asked
    assert recorded(list(step.actions)).phase == "Released"


def test_a_target_that_is_needed_again_is_asked_again() -> None:
    record = cession("Released", releasedTime=rfc3339(NOW))
    actions = advance(
        record, snapshot(admitted=[admitted()], pending=[pending()], is_reserved=True)
    )
    assert recorded(actions).phase == "Asked"
    assert "RequestSize" in kinds(actions)


def test_only_as_many_targets_release_capacity_as_are_still_needed() -> None:
    record = cession("Asked")
    other = record.spec.targets[0].model_copy(update={"job": "bert", "uid": "job-uid-bert"})
    record.spec.targets.append(other)
    jobs = [admitted(runtime=CEDED), admitted("bert", runtime=CEDED)]
    # of the eight that it requested, the preemptor now wants four
    current = snapshot(
        cohort_quota(
            queue("vision", nominal=8, strategy="StrictFIFO"),
            queue("research", nominal=8, used=16),
        ),
        admitted=jobs,
        pending=[pending(pods=4)],
    )
    assert [resize.job[1] for resize in resizes(record, current)] == ["bert"]


def test_an_ineligible_preemptor_takes_nothing_and_its_cession_is_soon_cancelled() -> None:
    current = snapshot(
        admitted=[admitted(runtime=CEDED)], pending=[pending(ineligible="its queue is on hold")]
    )
    record = cession("Asked")
    first = advance(record, current)
    assert kinds(first) == ["UpdateCession"]
    record.status = recorded(first)
    assert advance(record, current, NOW + 9) == []
    assert recorded(advance(record, current, NOW + 11)).phase == "Cancelled"


@pytest.mark.parametrize(
    ("pods", "taken"),
    [
        pytest.param(4, 2, id="something else took what was free"),
        pytest.param(6, 0, id="it was edited and wants more"),
    ],
)
def test_nobody_is_stopped_for_a_preemptor_that_would_not_fit_all_the_same(
    pods: int, taken: int
) -> None:
    """For 10 s it may fit again."""
    quota = cohort_quota(
        queue("vision", strategy="StrictFIFO"), queue("research", used=8), queue("other", 0, taken)
    )
    job = admitted(runtime=CEDED)
    current = snapshot(quota, admitted=[job], pending=[pending(pods=pods)])
    record = cession("Asked")
    first = advance(record, current)
    assert not [action for action in first if isinstance(action, ResizeJob)]
    record.status = recorded(first)
    assert recorded(advance(record, current, NOW + 11)).phase == "Failed"
