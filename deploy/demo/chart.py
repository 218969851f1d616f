"""The story as a picture: accelerators by team over time, and the loss over steps with the resizes
marked."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

from deploy.demo.figures import Holding, Step, merged

matplotlib.use("Agg")
import itertools

from matplotlib import pyplot as plt

COLORS = {"research": "#2a9d8f", "vision": "#e9c46a"}


def paint(
    path: Path,
    holdings: Sequence[Holding],
    marks: Mapping[str, float],
    steps: Sequence[Step],
    capacity: int,
    title: str,
) -> None:
    """Write the picture to `path`. `marks`: what happened → Unix seconds."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(10, 7), constrained_layout=True)
    figure.suptitle(title)
    start = holdings[0].time
    end = max(holdings[-1].time, *marks.values())
    times = [h.time - start for h in holdings] + [end - start]
    teams = sorted({team for h in holdings for team in h.by_team})
    rows = [[h.by_team.get(team, 0) for h in holdings] for team in teams]
    above.stackplot(
        times,
        [[*row, row[-1]] for row in rows],
        labels=teams,
        colors=[COLORS.get(t, "#888888") for t in teams],
        step="post",
    )
    for i, (text, at) in enumerate(sorted(marks.items(), key=lambda mark: mark[1])):
        above.axvline(at - start, color="#555555", linewidth=0.8, linestyle=":")
        late = at - start > 0.8 * (end - start)
        place = (at - start, capacity * (1.02 + 0.07 * (i % 3)))
        above.annotate(
            text, place, fontsize=7, ha="right" if late else "left", annotation_clip=False
        )
    above.set(
        ylabel="accelerators held",
        xlabel="seconds",
        ylim=(0, capacity * 1.25),
        xlim=(0, end - start),
    )
    above.legend(loc="lower left")
    ordered = merged(steps)
    below.plot(
        [s.step for s in ordered],
        [s.loss for s in ordered],
        color=COLORS["research"],
        linewidth=1.2,
    )
    marked = 0
    top = max((s.loss for s in ordered), default=1.0)
    for before, after in itertools.pairwise(ordered):
        if before.size != after.size:
            below.axvline(after.step, color="#e76f51", linewidth=0.8)
            marked += 1
            place = (after.step, top * (1.0 - 0.06 * (marked % 4)))
            below.annotate(f" {before.size}→{after.size}", place, fontsize=8, color="#e76f51")
    below.set(xlabel="step of the research job (resizes marked)", ylabel="loss")
    figure.savefig(path, dpi=120)
    plt.close(figure)
