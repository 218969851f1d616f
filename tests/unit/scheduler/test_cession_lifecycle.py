"""The table of phases is complete, and it is what the documentation prints."""

import pytest

from cede.api.cession import OPEN
from cede.api.reasons import CessionPhase
from scheduler.cession_lifecycle import (
    FROM_ANY_OPEN_PHASE,
    TRANSITIONS,
    Occurrence,
    next_phase,
    phase_table,
)


def test_every_open_phase_leads_somewhere_and_no_other_does() -> None:
    assert {phase for phase, _ in TRANSITIONS} == set(OPEN)


@pytest.mark.parametrize("phase", OPEN)
def test_what_others_do_has_a_row_in_every_open_phase(phase: CessionPhase) -> None:
    occurrences = {occurrence for before, occurrence in TRANSITIONS if before is phase}
    assert occurrences >= set(FROM_ANY_OPEN_PHASE)


def test_every_occurrence_and_every_phase_is_in_the_table() -> None:
    assert {occurrence for _, occurrence in TRANSITIONS} == set(Occurrence)
    assert {*TRANSITIONS.values(), CessionPhase.PENDING} == set(CessionPhase)


def test_what_cannot_happen_in_a_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="AdmissionLost cannot happen to a Cession in phase Asked"):
        next_phase(CessionPhase.ASKED, Occurrence.ADMISSION_LOST)


def test_the_printed_table_has_a_row_for_every_transition() -> None:
    lines = phase_table().splitlines()
    assert lines[0] == "| Phase | What happened | Next phase |"
    assert lines[2].startswith("| Pending | At least one target accepted its new size")
    assert lines[2].endswith("| Asked |")
    assert "| any open | The pods of the preemptor are ready. | Completed |" in lines
