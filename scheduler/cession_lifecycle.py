"""PURE. The life of a Cession as a table: what can happen in each phase, and which phase follows.
`phase_table` prints it; scheduler/advance.py drives it."""

from cede.api.cession import OPEN
from cede.api.reasons import CessionPhase, Reason

ADMISSION_TIMEOUT_S = 10.0
"""If the preemptor still does not fit by then, something else took the released capacity."""


class Occurrence(Reason):
    """What can happen to a Cession; `sentence` becomes its status message."""

    TARGET_ASKED = (
        "TargetAsked",
        "At least one target accepted its new size and finishes its training step.",
    )
    ALL_RELEASED = (
        "AllReleased",
        "All targets have released their capacity; Kueue admits the preemptor next.",
    )
    PREEMPTOR_ADMITTED = (
        "PreemptorAdmitted",
        "Kueue admitted the preemptor; its pods are starting.",
    )
    PREEMPTOR_READY = ("PreemptorReady", "The pods of the preemptor are ready.")
    PREEMPTOR_FINISHED = ("PreemptorFinished", "The preemptor ran and finished.")
    PREEMPTOR_DELETED = (
        "PreemptorDeleted",
        "The preemptor was deleted; targets that were not resized keep their size.",
    )
    PREEMPTOR_DEACTIVATED = (
        "PreemptorDeactivated",
        "The preemptor was deactivated or its ClusterQueue was deleted; targets that were not "
        "resized keep their size.",
    )
    ADMISSION_TIMED_OUT = (
        "AdmissionTimedOut",
        f"{ADMISSION_TIMEOUT_S:.0f} s after the release the preemptor does not fit; the scheduler "
        f"plans again.",
    )
    ADMISSION_LOST = (
        "AdmissionLost",
        "The preemptor was admitted and evicted again; the scheduler plans again.",
    )


FROM_ANY_OPEN_PHASE: dict[Occurrence, CessionPhase] = {
    Occurrence.PREEMPTOR_ADMITTED: CessionPhase.ADMITTED,
    Occurrence.PREEMPTOR_READY: CessionPhase.COMPLETED,
    Occurrence.PREEMPTOR_FINISHED: CessionPhase.COMPLETED,
    Occurrence.PREEMPTOR_DELETED: CessionPhase.CANCELLED,
    Occurrence.PREEMPTOR_DEACTIVATED: CessionPhase.CANCELLED,
}
"""What others can do at any time."""

FROM_PHASE: dict[tuple[CessionPhase, Occurrence], CessionPhase] = {
    (CessionPhase.PENDING, Occurrence.TARGET_ASKED): CessionPhase.ASKED,
    # no target has a runtime to ask, or all ended by themselves
    (CessionPhase.PENDING, Occurrence.ALL_RELEASED): CessionPhase.RELEASED,
    (CessionPhase.ASKED, Occurrence.TARGET_ASKED): CessionPhase.ASKED,
    (CessionPhase.ASKED, Occurrence.ALL_RELEASED): CessionPhase.RELEASED,
    (CessionPhase.RELEASED, Occurrence.ADMISSION_TIMED_OUT): CessionPhase.FAILED,
    (CessionPhase.ADMITTED, Occurrence.ADMISSION_LOST): CessionPhase.FAILED,
}

TRANSITIONS: dict[tuple[CessionPhase, Occurrence], CessionPhase] = {
    (phase, occurrence): following
    for phase in OPEN
    for occurrence, following in FROM_ANY_OPEN_PHASE.items()
} | FROM_PHASE


def next_phase(phase: CessionPhase, occurrence: Occurrence) -> CessionPhase:
    """Raises ValueError for what cannot happen in this phase."""
    if (phase, occurrence) not in TRANSITIONS:
        raise ValueError(f"{occurrence} cannot happen to a Cession in phase {phase}")
    return TRANSITIONS[phase, occurrence]


def phase_table() -> str:
    """The transitions as a Markdown table, for docs/architecture.md."""
    rows = [("Phase", "What happened", "Next phase"), ("---", "---", "---")]
    rows += [(phase, what.sentence, after) for (phase, what), after in FROM_PHASE.items()]
    rows += [("any open", what.sentence, after) for what, after in FROM_ANY_OPEN_PHASE.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
