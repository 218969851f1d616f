"""PURE. The rows of `cede history`: what each Cession took, and when each stage was reached."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cede.api.cession import Cession
from cede.api.objects import rfc3339, unix
from cede.causes.alternatives import alternatives_of
from cede.causes.cessions import job_of, target_text

STAGES = ("ASKED", "CEDED", "RELEASED", "ADMITTED", "READY", "ENDED")
WIDE_COLUMNS = ("WHY", "ALTERNATIVES", "MESSAGE")
COLUMNS = ("STARTED", "CESSION", "FOR", "FROM", "REASON", "PHASE", *STAGES)


@dataclass(frozen=True)
class Take:
    """One Cession. All times are RFC 3339, empty for a stage that was not reached."""

    name: str
    phase: str
    reason: str
    # namespace/job of who needs the capacity
    preemptor: str
    # namespace/job and sizes of each that gives
    targets: tuple[str, ...]
    # the targets that had not ceded within their grace
    forced: tuple[str, ...]
    started: str
    # the first target accepted its new size
    asked: str
    # the last target held no training state any more
    ceded: str
    released: str
    admitted: str
    ready: str
    ended: str
    why: str
    # for the targets whose part of the plan costs most: what would have been done without them
    alternatives: tuple[str, ...]
    message: str


def takes(cessions: Iterable[Cession], namespace: str, earliest: float) -> list[Take]:
    """The Cessions that began at `earliest` or later, the oldest first; with a `namespace`, those
    in which one of its jobs needs or gives capacity."""
    chosen = [
        cession
        for cession in cessions
        if cession.metadata.created >= earliest and _concerns(cession, namespace)
    ]
    by_age = sorted(chosen, key=lambda cession: (cession.metadata.created, cession.metadata.name))
    return [_take(cession) for cession in by_age]


def _concerns(cession: Cession, namespace: str) -> bool:
    spec = cession.spec
    places = {spec.preemptor.namespace} | {target.namespace for target in spec.targets}
    return not namespace or namespace in places


def _take(cession: Cession) -> Take:
    status = cession.status
    asked = sorted(target.askedTime for target in status.targets if target.askedTime)
    ceded = sorted(target.cededTime for target in status.targets if target.cededTime)
    forced = {target.uid for target in status.targets if target.forcedTime}
    targets = cession.spec.targets
    return Take(
        name=cession.metadata.name,
        phase=status.phase.value,
        reason=cession.spec.reason.value,
        preemptor=job_of(cession),
        targets=tuple(map(target_text, targets)),
        forced=tuple(target_text(target) for target in targets if target.uid in forced),
        started=rfc3339(cession.metadata.created),
        asked=asked[0] if asked else "",
        ceded=ceded[-1] if ceded else "",
        released=status.releasedTime,
        admitted=status.admittedTime,
        ready=status.readyTime,
        ended=status.completionTime,
        why=cession.spec.why,
        alternatives=tuple(alternatives_of(cession)),
        message=status.message,
    )


# --- text -----------------------------------------------------------------------------------------
def history_table(history: Sequence[Take], *, wide: bool) -> list[tuple[str, ...]]:
    """The rows as cells, with headings. A stage has the seconds since the Cession began."""
    table: list[tuple[str, ...]] = [(*COLUMNS, *WIDE_COLUMNS) if wide else COLUMNS]
    for take in history:
        stages = (take.asked, take.ceded, take.released, take.admitted, take.ready, take.ended)
        cells = (
            *(take.started, take.name, take.preemptor, ", ".join(take.targets)),
            *(take.reason, take.phase),
            *(_seconds(take.started, time) for time in stages),
        )
        more = (take.why, " ".join(take.alternatives), take.message)
        table.append((*cells, *more) if wide else cells)
    return table


def _seconds(started: str, time: str) -> str:
    return f"{max(0.0, unix(time) - unix(started)):g} s" if time else ""
