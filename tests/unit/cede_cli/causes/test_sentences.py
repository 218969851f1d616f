"""Causes as sentences, in the command and in events."""

from dataclasses import replace

from cede.api.wait_reasons import WaitReason
from cede.causes.facts import Cause, estimate
from cede.causes.sentences import sentences
from tests.builders.reports import NOW

HELD = Cause(WaitReason.QUEUE_ON_HOLD, "LocalQueue default is on hold.", "an admin opens it")
AGAIN = Cause(
    WaitReason.BACK_OFF,
    "Kueue evicted it.",
    "an admin opens it",
    estimate=estimate("requeueAt", earliest=NOW + 60),
)


def test_each_cause_has_its_reason_and_equal_cures_are_said_once() -> None:
    assert list(sentences([HELD, AGAIN], NOW, waits=True)) == [
        "LocalQueue default is on hold. [QueueOnHold]",
        "Kueue evicted it. [BackOff]",
        "What would change it: an admin opens it.",
        "When: in 60 s at the earliest (requeueAt).",
    ]


def test_without_a_ground_there_is_no_estimate() -> None:
    *_, when = sentences([HELD], NOW, waits=True)
    assert when == "When: not known: nothing of this ends at a known time."


def test_a_cause_says_why_there_is_no_estimate() -> None:
    unknown = replace(HELD, no_estimate="nobody knows when jobs end")
    *_, when = sentences([HELD, unknown], NOW, waits=True)
    assert when == "When: not known: nobody knows when jobs end."
    assert list(sentences([unknown, AGAIN], NOW, waits=True))[-1].startswith("When: in 60 s")


def test_a_job_that_runs_waits_for_nothing() -> None:
    assert list(sentences([HELD], NOW, waits=False))[-1].startswith("What would change it: ")
    assert list(sentences([], NOW, waits=True)) == []
