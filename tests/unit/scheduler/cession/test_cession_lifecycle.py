"""The table of phases is complete, and it is what the documentation prints."""

import pytest

from cede.api.cession import ENDED, OPEN
from cede.api.reasons import CessionPhase
from scheduler.cession.cession_lifecycle import (
    FOLLOWED,
    ROWS,
    TRANSITIONS,
    Occurrence,
    next_phase,
    phase_table,
)

IN_EVERY_PHASE = [occurrence for phases, occurrence, _ in ROWS if phases == FOLLOWED]
CELLS = [(phase, occurrence) for phase in CessionPhase for occurrence in Occurrence]


def test_every_phase_that_is_followed_leads_somewhere_and_no_other_does() -> None:
    assert {phase for phase, _ in TRANSITIONS} == set(FOLLOWED) == set(CessionPhase) - set(ENDED)


@pytest.mark.parametrize("phase", FOLLOWED)
def test_from_every_phase_an_end_is_reached(phase: CessionPhase) -> None:
    """Whatever others do to the preemptor, or an error in the scheduler."""
    following = {TRANSITIONS[phase, occurrence] for occurrence in IN_EVERY_PHASE}
    assert following == {CessionPhase.ADMITTED, *ENDED}


def test_every_occurrence_and_every_phase_is_in_the_table() -> None:
    assert {occurrence for _, occurrence in TRANSITIONS} == set(Occurrence)
    assert {*TRANSITIONS.values(), CessionPhase.PENDING} == set(CessionPhase)


@pytest.mark.parametrize(("phase", "occurrence"), CELLS)
def test_every_cell_leads_to_one_phase_or_is_refused(
    phase: CessionPhase, occurrence: Occurrence
) -> None:
    """An admitted preemptor never needs capacity again in the same Cession."""
    if (phase, occurrence) not in TRANSITIONS:
        with pytest.raises(ValueError, match=f"{occurrence} cannot happen .* in phase {phase}"):
            next_phase(phase, occurrence)
        return
    following = next_phase(phase, occurrence)
    assert phase in OPEN or following not in OPEN
    assert following is not CessionPhase.PENDING


def test_the_printed_table_has_a_row_for_every_occurrence() -> None:
    lines = phase_table().splitlines()
    assert lines[0] == "| What happened | in Pending | in Asked | in Released | in Admitted |"
    assert len(lines) == 2 + len(Occurrence)
    ready = (
        "| The pods of the preemptor are ready. | Completed | Completed | Completed | Completed |"
    )
    assert ready in lines
    assert sum(line.count("–") for line in lines) == 4 * len(Occurrence) - len(TRANSITIONS)
