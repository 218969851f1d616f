"""PURE. The text of `cede status` and `cede explain`."""

from collections.abc import Iterable, Sequence

from cede.api import durations
from cede.causes.cessions import CessionSummary
from cede.report.explanation import Explanation
from cede.report.status import Status

TEAM_COLUMNS = ("TEAM", "NAMESPACE", "OWNS", "USES", "LENDS", "BORROWS", "READY")
PREEMPTION_BY = {
    "Cede": "Cede asks jobs to shrink or to save before they stop",
    "Kueue": "Kueue preempts by its own rules",
}


def status_lines(status: Status) -> Iterable[str]:
    if status.mode:
        preemption = PREEMPTION_BY.get(
            status.preemption, "the quota_controller has not reported yet who preempts"
        )
        yield f"Policy   mode {status.mode}: {preemption}"
    else:
        yield "Policy   none that can be read"
    yield f"Leader   {status.leader or 'none'}"
    for sentence in status.instance_types:
        yield f"Nodes    {sentence}"
    yield ""
    rows = [
        (
            team.name,
            team.namespace,
            team.owns,
            team.uses,
            team.lends,
            team.borrows,
            "yes" if team.ready else "NO",
        )
        for team in status.teams
    ]
    yield from table([TEAM_COLUMNS, *rows])
    yield from _cessions("Open Cessions", status.open_cessions)
    yield from _cessions("Ended Cessions", status.ended_cessions)
    if status.attention:
        yield ""
        yield "Needs attention"
        yield from (f"  {sentence}" for sentence in status.attention)


def _cessions(title: str, summaries: Sequence[CessionSummary]) -> Iterable[str]:
    yield ""
    yield title if summaries else f"{title}: none"
    for summary in summaries:
        duration = f" in {summary.seconds} s" if summary.seconds else ""
        yield (
            f"  {summary.name}: {summary.targets or 'no job'} for {summary.preemptor}; "
            f"{summary.phase}{duration}, {durations.describe(summary.age_s)} ago. {summary.why}"
        ).rstrip()


def explanation_lines(explanation: Explanation) -> Iterable[str]:
    yield f"{explanation.namespace}/{explanation.name}: {explanation.state}"
    for sentence in explanation.sentences:
        yield f"  {sentence}"


def table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    """The rows in aligned columns; an empty cell is `-`."""
    filled = [_filled(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*filled, strict=True)]
    for row in filled:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def _filled(row: Sequence[str]) -> list[str]:
    return [cell or "-" for cell in row]
