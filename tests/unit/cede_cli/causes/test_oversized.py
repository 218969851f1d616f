"""A job for which nothing is taken back, because too many jobs would have to give."""

from typing import Any

import pytest

from cede.api import names
from cede.api.pod_state import Event
from cede.api.wait_reasons import WaitReason
from cede.causes.oversized import NO_TIME
from cede.causes.sentences import sentences
from tests.builders.causes import causes, cession, lacks, policy, reasons, time, workload
from tests.builders.reports import NOW

KNOWN: dict[str, Any] = {"oversized": frozenset({"uid-claim"})}


def recorded(reason: str, ago_s: float) -> Event:
    return Event(reason=reason, eventTime=time(ago_s))


TOO_MANY = recorded("TooManyTargets", 600)


@pytest.mark.parametrize(
    "known",
    [
        pytest.param(KNOWN, id="the scheduler itself"),
        pytest.param({"events": [TOO_MANY]}, id="its event"),
        pytest.param(
            {"events": [recorded("MinRuntime", 700), TOO_MANY, recorded("Suspended", 5)]},
            id="its last event about the wait",
        ),
    ],
)
def test_a_job_for_which_too_many_would_give_says_so(known: dict[str, Any]) -> None:
    waiting = causes(workload(lacks(4)), **known)
    assert [cause.reason for cause in waiting] == [
        WaitReason.TOO_MANY_TARGETS,
        WaitReason.LENT_QUOTA_IN_USE,
    ]
    text = " ".join(sentences(waiting, NOW, waits=True))
    assert text.startswith("More than 1,000 jobs would have to release what it lacks")
    assert "What would change it: submit it as several smaller jobs, or an admin ends" in text
    assert text.endswith(f"When: not known: {NO_TIME}.")


def test_no_time_is_named_for_a_job_that_has_just_been_submitted() -> None:
    """Without this, the grace period of jobs that nobody asks."""
    waiting = causes(workload(lacks(4), age_s=0), **KNOWN)
    assert [cause.estimate for cause in waiting] == [None, None]


@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"events": [TOO_MANY, recorded("MinRuntime", 60)]}, id="it has changed since"),
        pytest.param({"oversized": frozenset({"uid-other"})}, id="another job"),
        pytest.param(KNOWN | {"cessions": (cession(),)}, id="there is a Cession"),
        pytest.param(KNOWN | {"policy": policy("Observe", preemption="Kueue")}, id="mode Observe"),
        pytest.param(KNOWN | {"leases": {names.SCHEDULER_LEASE: None}}, id="no scheduler"),
    ],
)
def test_what_else_explains_the_wait(known: dict[str, Any]) -> None:
    assert WaitReason.TOO_MANY_TARGETS not in reasons(workload(lacks(4)), **known)
