"""What is written into the status of a Cession."""

from cede.api.objects import rfc3339
from scheduler.cession.cession_lifecycle import Occurrence
from scheduler.cession.cession_record import described, next_status
from tests.builders.scheduler import NOW, cession

STAMP = rfc3339(NOW, micro=True)


def test_each_phase_records_its_time_once() -> None:
    record = cession("Asked")
    record.status = next_status(record, Occurrence.ALL_RELEASED, (), NOW)
    assert record.status.releasedTime == STAMP
    record.status = next_status(record, Occurrence.PREEMPTOR_ADMITTED, (), NOW)
    record.status = next_status(record, Occurrence.PREEMPTOR_READY, (), NOW + 1)
    status = record.status
    assert (status.admittedTime, status.secondsToReady) == (STAMP, "2.0")
    assert status.readyTime == status.completionTime == rfc3339(NOW + 1, micro=True)


def test_a_cession_that_needs_more_is_released_again_later() -> None:
    record = cession("Released", releasedTime="before")
    assert next_status(record, Occurrence.TARGETS_NEEDED, (), NOW).releasedTime == ""


def test_the_condition_says_whether_the_preemptor_runs() -> None:
    for phase, text in (("Asked", "Unknown"), ("Completed", "True"), ("Failed", "False")):
        record = cession(phase)
        (condition,) = described(record, record.status, NOW).conditions
        assert (condition["status"], condition["reason"]) == (text, phase)


def test_messages_and_summaries_fit_into_their_fields() -> None:
    record = cession("Asked")
    long = {"job": "n" * 63}
    targets = [record.spec.targets[0].model_copy(update=long) for _ in range(1000)]
    record = record.model_copy(update={"spec": record.spec.model_copy(update={"targets": targets})})
    status = next_status(record, Occurrence.BROKEN, (), NOW, "x" * 9999)
    assert len(status.message) == 2048
    summary = described(record, status, NOW).targetSummary
    assert len(summary) <= 1024
    assert summary.endswith(" more")
