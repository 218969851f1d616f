"""The table: what was measured, beside what was promised; statistics, text and JSON. Pure."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One promise. There is one value for each run, in `unit`.

    The peer's values come from the same runs, in the same order if there are as many.
    """

    # The name that --only takes.
    name: str
    quantity: str
    goal: str
    unit: str
    ours: Sequence[float]
    peer: str = ""
    theirs: Sequence[float] = ()
    # Bound of our median.
    at_most: float | None = None
    # Bounds of the median of ours ÷ theirs.
    ratio_at_most: float | None = None
    ratio_at_least: float | None = None
    note: str = ""
    # `at_most` bounds our worst value instead of the median; a run that did not end counts as 1.
    always: bool = False

    @property
    def ratios(self) -> list[float]:
        """Ours ÷ theirs for each run; the ratio of the medians if the numbers of runs differ."""
        if not self.ours or not self.theirs:
            return []
        if len(self.ours) == len(self.theirs):
            return [a / b for a, b in zip(self.ours, self.theirs, strict=True)]
        return [statistics.median(self.ours) / statistics.median(self.theirs)]

    @property
    def met(self) -> bool | None:
        """Whether every bound holds; None if a value that a bound needs was not measured."""
        checks: list[bool] = []
        if self.at_most is not None:
            if not self.ours:
                return None
            checks.append((max if self.always else statistics.median)(self.ours) <= self.at_most)
        if self.ratio_at_most is not None or self.ratio_at_least is not None:
            if not self.ratios:
                return None
            ratio = statistics.median(self.ratios)
            checks.append(
                ratio <= (self.ratio_at_most if self.ratio_at_most is not None else ratio)
            )
            checks.append(
                ratio >= (self.ratio_at_least if self.ratio_at_least is not None else ratio)
            )
        return all(checks) if checks else None

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "quantity": self.quantity,
            "goal": self.goal,
            "unit": self.unit,
            "measured": _median(self.ours),
            "spread": _spread(self.ours),
            "n": len(self.ours),
            "peer": self.peer,
            "peer_measured": _median(self.theirs),
            "peer_spread": _spread(self.theirs),
            "peer_n": len(self.theirs),
            "ratio": _median(self.ratios),
            "ratio_spread": _spread(self.ratios),
            "met": self.met,
            "note": self.note,
        }


@dataclass
class Samples:
    """Values by name, in the order of the runs."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, value: float | None) -> None:
        if value is not None:
            self.values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> list[float]:
        return self.values.get(name, [])

    def median(self, name: str, otherwise: float = float("nan")) -> float:
        return statistics.median(self[name]) if self[name] else otherwise


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _spread(values: Sequence[float]) -> list[float] | None:
    return [min(values), max(values)] if values else None


def spread_text(values: Sequence[float]) -> str:
    """The median with minimum and maximum."""
    if not values:
        return "–"
    return f"{statistics.median(values):.3g} ({min(values):.3g}–{max(values):.3g})"


def ratio_text(ratios: Sequence[float]) -> str:
    """The median; a small one is written as a fraction."""
    if not ratios:
        return "–"
    ratio = statistics.median(ratios)
    return f"1/{1 / ratio:.3g}" if 0 < ratio < 0.5 else f"{ratio:.3g}"


def as_text(rows: Iterable[Row]) -> str:
    """A Markdown table with one line for each promise."""
    head = "| quantity | goal | measured | n | peer | its figure | n | ratio | met |"
    lines = [head, "|" + " --- |" * 9]
    for row in rows:
        met = {True: "yes", False: "NO", None: "–"}[row.met] + (f": {row.note}" if row.note else "")
        theirs = (
            f"{spread_text(row.theirs)} {row.unit} | {len(row.theirs)}" if row.theirs else "– | 0"
        )
        ours = f"{spread_text(row.ours)} {row.unit}"
        cells = [
            row.quantity,
            row.goal,
            ours,
            str(len(row.ours)),
            row.peer or "–",
            theirs,
            ratio_text(row.ratios),
            met,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def document(rows: Iterable[Row], facts: dict[str, object]) -> str:
    """The text of bench-runtime.json: machine, versions and rows."""
    return json.dumps(facts | {"rows": [row.as_json() for row in rows]}, indent=1) + "\n"
