"""PURE. The figures of all ways of sharing, as text and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.figures import Figures


@dataclass(frozen=True, slots=True)
class Report:
    """What was replayed, under which assumptions, and what came out."""

    trace: str
    jobs: int
    # jobs that run already when the window begins
    earlier: int
    accelerators: int
    days: float
    elastic_fraction: float
    elastic_jobs: int
    seed: int
    assumptions: Assumptions
    results: tuple[Figures, ...]

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    def as_text(self) -> str:
        names = [result.way for result in self.results]
        lines = [
            f"{self.trace}: {self.jobs} jobs of {len(self.results[0].teams)} teams in "
            f"{self.days:g} days on {self.accelerators} accelerators; {self.earlier} jobs ran "
            f"already",
            f"assumed: {self.elastic_jobs} jobs are elastic (--elastic {self.elastic_fraction:g}, "
            f"--seed {self.seed}), {', '.join(self.assumptions.sentences())}",
            "",
            *_table(["", *names], [[name, *texts] for name, texts in self._rows()]),
            "",
            "wait of each team, in seconds: median, 95 %",
            *_table(["team", *names], self._team_rows()),
        ]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, list[str]]]:
        results = self.results
        return [
            ("accelerators in use", [_percent(r.in_use) for r in results]),
            ("useful work", [_percent(r.useful) for r in results]),
            ("wait, median", [_seconds(r.median_wait_s) for r in results]),
            ("wait, 95 %", [_seconds(r.p95_wait_s) for r in results]),
            ("owners that waited", [str(r.owners) for r in results]),
            ("to owner, median", [_seconds(r.median_to_owner_s) for r in results]),
            ("to owner, 95 %", [_seconds(r.p95_to_owner_s) for r in results]),
            ("accelerator-hours lost", [f"{r.lost_h:.1f}" for r in results]),
            ("stops", [str(r.stops) for r in results]),
            ("jobs stopped twice in 10 min", [str(r.stopped_twice) for r in results]),
            ("shrinks", [str(r.shrinks) for r in results]),
            ("growth, part of what was possible", [_percent(r.grown) for r in results]),
            ("jobs finished", [str(r.finished) for r in results]),
        ]

    def _team_rows(self) -> list[list[str]]:
        rows = list[list[str]]()
        for index, team in enumerate(self.results[0].teams):
            teams = [result.teams[index] for result in self.results]
            waits = [f"{t.median_wait_s:.0f}, {t.p95_wait_s:.0f}" for t in teams]
            rows.append([team.team, *waits])
        return rows


def _seconds(value: float) -> str:
    return f"{value:.1f} s"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return [_line(row, widths) for row in (header, *rows)]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    texts = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
    return "  ".join([row[0].ljust(widths[0]), *texts[1:]]).rstrip()
