"""PURE. The answer to a question, as a value and as text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cede.report.text import table
from whatif.changes import Change, Effect


class JobState(StrEnum):
    """What becomes of the job that was asked for."""

    ADMITTED = "Admitted"
    ADMITTED_AFTER_TAKE_BACK = "AdmittedAfterTakeBack"
    WAITS = "Waits"
    NEVER_FITS = "NeverFits"
    REFUSED = "Refused"


@dataclass(frozen=True)
class JobAnswer:
    """The job that was asked for."""

    namespace: str
    job: str
    state: JobState
    # seconds until it is admitted, at least; None if it is not
    after_s: int | None
    why: tuple[str, ...]


@dataclass(frozen=True)
class Figures:
    """Accelerators of a team; of types without any, CPU."""

    # what its queue has of its own now
    owns: str
    uses: str
    lends: str
    borrows: str
    # what its next job could use
    available: str


@dataclass(frozen=True)
class TeamAnswer:
    """A team before, and when nothing changes any more. None: it does not exist."""

    team: str
    before: Figures | None
    after: Figures | None


@dataclass(frozen=True)
class Answer:
    """What would happen to whom, and why."""

    question: str
    # None if no job was asked for
    job: JobAnswer | None
    # about what was asked for, such as the conditions of an allocation
    notes: tuple[str, ...]
    # in order; what would happen without the question as well is only in `anyway`
    changes: tuple[Change, ...]
    anyway: tuple[Change, ...]
    # how many running jobs keep their size
    unchanged: int
    teams: tuple[TeamAnswer, ...]
    # parts that could not be planned, or for which the passes were not enough
    incomplete: tuple[str, ...]
    # what the prediction assumes, and what it does not know
    assumptions: tuple[str, ...]


# --- text -----------------------------------------------------------------------------------------
STATES = {
    JobState.ADMITTED: "admitted",
    JobState.ADMITTED_AFTER_TAKE_BACK: "admitted after a take-back",
    JobState.WAITS: "waits",
    JobState.NEVER_FITS: "waits: it can never fit",
    JobState.REFUSED: "refused",
}
EFFECTS = {
    Effect.ADMITTED: "is admitted with {to}",
    Effect.GROWS: "grows from {before} to {to}",
    Effect.SHRINKS: "shrinks from {before} to {to}",
    Effect.DRAINS: "drains",
    Effect.STOPS: "stops",
    Effect.LACKS_NODES: "lacks nodes",
}
TEAM_COLUMNS = ("TEAM", "OWNS", "USES", "LENDS", "BORROWS", "NEXT JOB COULD USE")


def lines(answer: Answer) -> Iterator[str]:
    """For people."""
    yield f"{answer.question}: {_headline(answer)}"
    sentences = (*(answer.job.why if answer.job else ()), *answer.notes)
    yield from (f"  {sentence}" for sentence in sentences)
    yield from _section("What would happen", _changes(answer.changes, sentences))
    if answer.unchanged:
        yield f"  {_jobs(answer.unchanged)} at the present size"
    yield from _section("What would happen without it as well", _changes(answer.anyway))
    rows = [row for team in answer.teams for row in _team_rows(team)]
    if rows:
        yield ""
        yield from table([TEAM_COLUMNS, *rows])
    yield from _section("Not complete", (f"  {text}" for text in answer.incomplete))
    yield from _section("Assumed", (f"  {text}" for text in answer.assumptions))


def _headline(answer: Answer) -> str:
    if answer.job:
        later = f", after {answer.job.after_s} s or later" if answer.job.after_s else ""
        return STATES[answer.job.state] + later
    touched = {(change.namespace, change.job) for change in answer.changes}
    return _jobs(len(touched), "changes", "change") if touched else "no job changes"


def _jobs(count: int, singular: str = "keeps running", plural: str = "keep running") -> str:
    return f"1 job {singular}" if count == 1 else f"{count} jobs {plural}"


def _section(title: str, body: Iterable[str]) -> Iterator[str]:
    rows = list(body)
    if rows:
        yield ""
        yield title
        yield from rows


def _changes(changes: Sequence[Change], known: Sequence[str] = ()) -> Iterator[str]:
    """Each reason follows the first change that it explains. One that is `known` is not repeated,
    but its rule is named."""
    last = ""
    for change in changes:
        when = f"after {change.after_s} s or later: " if change.after_s else ""
        text = EFFECTS[change.effect].format(before=change.from_size, to=_pods(change.to_size))
        yield f"  {when}{change.namespace}/{change.job} (team {change.team}) {text}"
        why = "" if change.why in known else change.why
        reason = ": ".join(filter(None, (change.rule, why)))
        if reason and reason != last:
            yield f"    {reason}"
        last = reason


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _team_rows(team: TeamAnswer) -> Iterator[tuple[str, ...]]:
    """Only teams of which something changes."""
    if team.before == team.after:
        return
    before, after = _cells(team.before), _cells(team.after)
    pairs = zip(before, after, strict=True)
    yield (team.team, *(new if old == new else f"{old} → {new}" for old, new in pairs))


def _cells(figures: Figures | None) -> tuple[str, ...]:
    if figures is None:
        return ("none",) * (len(TEAM_COLUMNS) - 1)
    return figures.owns, figures.uses, figures.lends, figures.borrows, figures.available
