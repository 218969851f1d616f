"""PURE. The life of a Cession as a table: what can happen in each phase, and which phase follows.
`phase_table` prints it; scheduler/cession/advance.py drives it."""

from cede.api.cession import OPEN
from cede.api.reasons import CessionPhase, Reason

ADMISSION_TIMEOUT_S = 10.0
"""If the preemptor still does not fit by then, something else took the released capacity."""
KUEUE_TIMEOUT_S = 60.0
"""If Kueue does not admit a preemptor that fits by then, it does not because of something else."""
RESERVATION_TIMEOUT_S = 30.0
"""If Kueue does not keep capacity for the preemptor so long after the last target was ready, it
will not."""
INELIGIBLE_TIMEOUT_S = 10.0
"""If Kueue would still not try the preemptor by then, nobody needs to release capacity for it."""


class Occurrence(Reason):
    """What can happen to a Cession; `sentence` becomes its status message."""

    TARGET_ASKED = (
        "TargetAsked",
        "At least one target accepted its new size and finishes its training step.",
    )
    ALL_RELEASED = (
        "AllReleased",
        "All targets that are needed have released their capacity; Kueue admits the preemptor "
        "next.",
    )
    TARGETS_NEEDED = (
        "TargetsNeeded",
        "What was released does not suffice any more; further targets are asked.",
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
    PREEMPTOR_INELIGIBLE = (
        "PreemptorIneligible",
        f"For {INELIGIBLE_TIMEOUT_S:.0f} s Kueue would not have tried to admit the preemptor; "
        f"targets that were not resized keep their size.",
    )
    OBSERVING = (
        "ModeObserve",
        "The mode is Observe, or there is no ClusterPolicy: nothing is taken from any job.",
    )
    NOT_RESERVED = (
        "NotReserved",
        f"For {RESERVATION_TIMEOUT_S:.0f} s all targets have been ready, and their capacity could "
        f"not be kept for the preemptor: its ClusterQueue could not be made StrictFIFO, Kueue has "
        f"not read it, has not admitted a guard or preempts by its own rules, or another Cession "
        f"releases first. Targets that were not resized keep their size, and the scheduler plans "
        f"again after a pause.",
    )
    CAPACITY_TAKEN = (
        "CapacityTaken",
        f"For {ADMISSION_TIMEOUT_S:.0f} s the preemptor has not fitted even with all that its "
        f"targets release, and no more may be added; the scheduler plans again after a pause.",
    )
    NOT_ADMITTED = (
        "NotAdmitted",
        f"For {KUEUE_TIMEOUT_S:.0f} s the preemptor has fitted, and Kueue has not admitted it; "
        f"the scheduler plans again after a pause.",
    )
    ADMISSION_LOST = (
        "AdmissionLost",
        "The preemptor was admitted and evicted again; the scheduler plans again after a pause.",
    )
    BROKEN = (
        "Broken",
        "The scheduler cannot continue this Cession; it plans again after a pause.",
    )


FOLLOWED = (*OPEN, CessionPhase.ADMITTED)
"""The phases in which something can still happen."""
BEFORE_RELEASE = (CessionPhase.PENDING, CessionPhase.ASKED)
RELEASED = (CessionPhase.RELEASED,)

ROWS: tuple[tuple[tuple[CessionPhase, ...], Occurrence, CessionPhase], ...] = (
    (BEFORE_RELEASE, Occurrence.TARGET_ASKED, CessionPhase.ASKED),
    (BEFORE_RELEASE, Occurrence.ALL_RELEASED, CessionPhase.RELEASED),
    (RELEASED, Occurrence.TARGETS_NEEDED, CessionPhase.ASKED),
    (FOLLOWED, Occurrence.PREEMPTOR_ADMITTED, CessionPhase.ADMITTED),
    (FOLLOWED, Occurrence.PREEMPTOR_READY, CessionPhase.COMPLETED),
    (FOLLOWED, Occurrence.PREEMPTOR_FINISHED, CessionPhase.COMPLETED),
    (FOLLOWED, Occurrence.PREEMPTOR_DELETED, CessionPhase.CANCELLED),
    (FOLLOWED, Occurrence.PREEMPTOR_DEACTIVATED, CessionPhase.CANCELLED),
    (OPEN, Occurrence.PREEMPTOR_INELIGIBLE, CessionPhase.CANCELLED),
    (FOLLOWED, Occurrence.OBSERVING, CessionPhase.CANCELLED),
    (BEFORE_RELEASE, Occurrence.NOT_RESERVED, CessionPhase.FAILED),
    (OPEN, Occurrence.CAPACITY_TAKEN, CessionPhase.FAILED),
    (RELEASED, Occurrence.NOT_ADMITTED, CessionPhase.FAILED),
    ((CessionPhase.ADMITTED,), Occurrence.ADMISSION_LOST, CessionPhase.FAILED),
    (FOLLOWED, Occurrence.BROKEN, CessionPhase.FAILED),
)
"""The phases in which something can happen, and the phase that follows."""

TRANSITIONS = {
    (phase, occurrence): following for phases, occurrence, following in ROWS for phase in phases
}


def next_phase(phase: CessionPhase, occurrence: Occurrence) -> CessionPhase:
    """Raises ValueError for what cannot happen in this phase."""
    if (phase, occurrence) not in TRANSITIONS:
        raise ValueError(f"{occurrence} cannot happen to a Cession in phase {phase}")
    return TRANSITIONS[phase, occurrence]


def phase_table() -> str:
    """What happened × phase → the next phase, as a Markdown table for docs/architecture.md."""
    rows = [("What happened", *(f"in {phase}" for phase in FOLLOWED))]
    rows.append(tuple("---" for _ in rows[0]))
    for occurrence in Occurrence:
        cells = [TRANSITIONS.get((phase, occurrence), "–") for phase in FOLLOWED]
        rows.append((occurrence.sentence, *cells))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
