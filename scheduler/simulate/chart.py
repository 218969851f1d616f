"""PURE. One picture of a simulation, as SVG: accelerators in use over time, work lost, waits."""

from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from scheduler.simulate.figures import Figures
from scheduler.simulate.replay import Sample

WIDTH = 960
HEIGHT = 520
LEFT = 70
PLOT_WIDTH = 860
PLOT_HEIGHT = 200
BAR_TOP = 330
BAR_WIDTH = 36
BAR_HEIGHT = 120
COLORS = ("#c8553d", "#2a9d8f", "#8d99ae")
"""Stock Kueue, Cede, private partitions."""
Samples = Sequence[Sample]


def draw(results: Sequence[Figures], samples: Sequence[Samples], capacity: int) -> str:
    """`samples` are of the ways of `results`."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(LEFT, 30, f"accelerators in use, of {capacity}"),
        *_lines(results, samples, capacity),
        *_bars(LEFT, "accelerator-hours lost", [result.lost_h for result in results]),
        *_bars(LEFT + 300, "wait, 95 %, in minutes", [r.p95_wait_s / 60 for r in results]),
        *_bars(LEFT + 600, "to owner, 95 %, in s", [r.p95_to_owner_s for r in results]),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _lines(results: Sequence[Figures], samples: Sequence[Samples], capacity: int) -> Iterable[str]:
    bottom = 40 + PLOT_HEIGHT
    end = max((sample.seconds for points in samples for sample in points), default=1.0)
    yield (f'<path d="M{LEFT},40 V{bottom} H{LEFT + PLOT_WIDTH}" fill="none" stroke="#333333"/>')
    yield _text(LEFT - 8, 46, str(capacity), anchor="end")
    yield _text(LEFT - 8, bottom, "0", anchor="end")
    yield _text(LEFT + PLOT_WIDTH, bottom + 18, f"{end / 86400:.1f} days", anchor="end")
    for index, (result, points) in enumerate(zip(results, samples, strict=True)):
        color = COLORS[index % len(COLORS)]
        coordinates = [
            f"{LEFT + PLOT_WIDTH * sample.seconds / end:.1f},"
            f"{bottom - PLOT_HEIGHT * sample.in_use / capacity:.1f}"
            for sample in points
        ]
        line = " ".join(coordinates)
        yield f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        left = LEFT + 240 * index
        yield f'<rect x="{left}" y="{bottom + 26}" width="12" height="12" fill="{color}"/>'
        yield _text(left + 18, bottom + 37, result.way)


def _bars(left: int, title: str, values: Sequence[float]) -> Iterable[str]:
    yield _text(left, BAR_TOP, title)
    largest = max(*values, 1e-9)
    bottom = BAR_TOP + 30 + BAR_HEIGHT
    for index, value in enumerate(values):
        height = BAR_HEIGHT * value / largest
        x = left + index * 2 * BAR_WIDTH
        color = COLORS[index % len(COLORS)]
        yield (
            f'<rect x="{x}" y="{bottom - height:.1f}" width="{BAR_WIDTH}" '
            f'height="{height:.1f}" fill="{color}"/>'
        )
        yield _text(x + BAR_WIDTH // 2, bottom - height - 6, f"{value:.1f}", anchor="middle")


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
