"""Draws the demo: accelerators by team over time, and the loss over steps with every resize."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from deploy.demo.figures import merged
from deploy.demo.record import Holding, Step

COLORS = {"research": "#2a9d8f", "vision": "#e9c46a", "plain": "#8ab6d6"}
OTHER_COLOR = "#888888"
MARK_COLOR = "#555555"
RESIZE_COLOR = "#e76f51"


def draw(
    holdings: Sequence[Holding],
    marks: Mapping[str, float],
    steps: Sequence[Step],
    capacity: int,
    title: str,
) -> Figure:
    """The chart. `marks` are events with their times (Unix seconds)."""
    figure = Figure(figsize=(10, 7), layout="constrained")
    above, below = figure.subplots(2, 1)
    figure.suptitle(title)
    _draw_holdings(above, holdings, marks, capacity)
    _draw_loss(below, merged(steps))
    return figure


def save(figure: Figure, folder: Path, name: str) -> None:
    """Writes NAME.png and NAME.svg.

    The SVG has its text as text, and is the same file for the same data.
    """
    figure.savefig(folder / f"{name}.png", dpi=120)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "cede"}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None, "Creator": None})


def _draw_holdings(
    axes: Any, holdings: Sequence[Holding], marks: Mapping[str, float], capacity: int
) -> None:
    start = holdings[0].time
    duration = max(holdings[-1].time, *marks.values()) - start
    times = [*(holding.time - start for holding in holdings), duration]
    teams = sorted({team for holding in holdings for team in holding.by_team})
    axes.stackplot(
        times,
        [_counts(holdings, team) for team in teams],
        labels=teams,
        colors=[COLORS.get(team, OTHER_COLOR) for team in teams],
        step="post",
    )
    for index, (text, time) in enumerate(sorted(marks.items(), key=lambda mark: mark[1])):
        seconds = time - start
        axes.axvline(seconds, color=MARK_COLOR, linewidth=0.8, linestyle=":")
        # three heights, so that texts of close marks do not overlap
        height = capacity * (1.02 + 0.07 * (index % 3))
        alignment = "right" if seconds > 0.8 * duration else "left"
        axes.annotate(text, (seconds, height), fontsize=7, ha=alignment, annotation_clip=False)
    axes.set(
        ylabel="accelerators held",
        xlabel="seconds",
        ylim=(0, capacity * 1.25),
        xlim=(0, duration),
    )
    axes.legend(loc="lower left")


def _counts(holdings: Sequence[Holding], team: str) -> list[int]:
    """The team's accelerators from each time on; the last count holds until the end."""
    counts = [holding.by_team.get(team, 0) for holding in holdings]
    return [*counts, counts[-1]]


def _draw_loss(axes: Any, steps: Sequence[Step]) -> None:
    numbers = [step.step for step in steps]
    losses = [step.loss for step in steps]
    axes.plot(numbers, losses, color=COLORS["research"], linewidth=1.2)
    top = max(losses, default=1.0)
    resizes = [(before, after) for before, after in pairwise(steps) if before.size != after.size]
    for index, (before, after) in enumerate(resizes, start=1):
        axes.axvline(after.step, color=RESIZE_COLOR, linewidth=0.8)
        position = (after.step, top * (1.0 - 0.06 * (index % 4)))
        text = f" {before.size}→{after.size}"
        axes.annotate(text, position, fontsize=8, color=RESIZE_COLOR)
    axes.set(xlabel="step of the research job (resizes marked)", ylabel="loss")
