"""A job that shrank does not grow for a while, unless nobody wants what it gave."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from scheduler.resizing.cooldown import jobs_in_cooldown
from scheduler.snapshot.workloads import AdmittedWorkload, PendingWorkload
from tests.builders.scheduler import NOW, admitted, cession, pending, snapshot

COOLDOWN_S = 120.0
SHRUNK_AT = NOW - 20


def ended(phase: str = "Cancelled", requested_at: float = SHRUNK_AT + 0.5) -> Cession:
    """10 s after gpt shrank for it."""
    target = {"uid": "job-uid-gpt", "resizeRequestedTime": rfc3339(requested_at, micro=True)}
    return cession(phase, completionTime=rfc3339(NOW - 10), targets=[target])


def is_cooling(
    *cessions: Cession,
    shrunk_at: float = SHRUNK_AT,
    waiting: PendingWorkload | None = None,
    others: Sequence[AdmittedWorkload] = (),
) -> bool:
    gpt = admitted(size=4, shrunk_at=shrunk_at)
    pending = [waiting] if waiting else []
    current = snapshot(
        admitted=[gpt, *others], cessions=cessions, pending=pending, is_reserved=True
    )
    return gpt.identity in jobs_in_cooldown(current, COOLDOWN_S, NOW)


def test_a_job_that_shrank_is_in_its_cooldown_for_so_long() -> None:
    assert is_cooling(shrunk_at=NOW - 119)
    assert not is_cooling(shrunk_at=NOW - 120)


@pytest.mark.parametrize(
    ("record", "waiting", "expected"),
    [
        pytest.param(ended(), None, False, id="its preemptor was deleted"),
        pytest.param(ended(), pending(active=False), False, id="its preemptor was deactivated"),
        pytest.param(ended(), pending(ineligible="held"), True, id="it may soon want it again"),
        pytest.param(ended("Completed"), None, True, id="its preemptor had it"),
        pytest.param(ended("Failed"), pending(), True, id="it is planned for again"),
        pytest.param(ended(requested_at=NOW - 15), None, True, id="the resize had no effect"),
        pytest.param(cession("Cancelled"), None, True, id="it was not resized for it"),
    ],
)
def test_who_gave_for_nobody_has_no_cooldown(
    record: Cession, waiting: PendingWorkload | None, expected: bool
) -> None:
    assert is_cooling(record, waiting=waiting) == expected


def test_who_gave_for_a_preemptor_that_was_admitted_after_all_has_its_cooldown() -> None:
    claim = replace(admitted("claim", "vision", size=4), uid="uid-claim")
    assert is_cooling(ended(), others=[claim])


def test_a_later_shrink_has_its_own_cooldown() -> None:
    """For another Cession, or because pods are missing."""
    assert is_cooling(ended(), shrunk_at=NOW - 5)
