"""The Cession API: which phases are open, and the progress of a target."""

import pytest
from pydantic import ValidationError

from cede.api.cession import Cession
from cede.api.reasons import CessionPhase
from tests.builders.scheduler import cession


@pytest.mark.parametrize("phase", CessionPhase)
def test_a_cession_is_open_until_the_preemptor_is_admitted(phase: CessionPhase) -> None:
    record = cession(phase)
    assert record.open == (phase in {"Pending", "Asked", "Released"})
    assert record.ended == (phase in {"Completed", "Cancelled", "Failed"})


def test_a_new_cession_is_pending() -> None:
    assert Cession(spec=cession().spec).status.phase is CessionPhase.PENDING


def test_the_progress_of_a_target_is_found_by_its_uid() -> None:
    record = cession("Asked", targets=[{"uid": "job-uid-gpt", "askedTime": "x"}])
    assert record.target_status("job-uid-gpt").askedTime == "x"
    assert record.target_status("another").askedTime == ""


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [("status", "phase", "Running"), ("spec", "reason", "Because")],
    ids=["phase", "reason"],
)
def test_an_unknown_phase_or_reason_is_refused(part: str, field: str, value: str) -> None:
    body = cession().model_dump(mode="json")
    body[part][field] = value
    with pytest.raises(ValidationError, match=field):
        Cession.model_validate(body)
