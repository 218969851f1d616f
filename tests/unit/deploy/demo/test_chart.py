"""The chart of the demo as PNG and as SVG."""

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy.demo.chart import draw, save
from deploy.demo.record import Holding, Step

MAX_SVG_BYTES = 60_000
HOLDINGS = [
    Holding(100.0, {}),
    Holding(110.0, {"research": 8}),
    Holding(150.0, {"research": 4, "vision": 4}),
    Holding(170.0, {"research": 8}),
]
MARKS = {"vision asks": 148.0, "vision runs": 150.0, "vision is done": 168.0}


def steps(count: int) -> list[Step]:
    """A third on 8, a third on 4, a third on 8, with a noisy loss."""
    sizes = [8, 4, 8]
    return [
        Step(n, 3 * math.exp(-n / count) + 0.05 * math.sin(n * n), sizes[n * 3 // count], n * 0.4)
        for n in range(count)
    ]


def svg(folder: Path, count: int = 400) -> str:
    folder.mkdir(exist_ok=True)
    save(draw(HOLDINGS, MARKS, steps(count), 8, "research cedes 4 of 8"), folder, "demo")
    assert (folder / "demo.png").read_bytes().startswith(b"\x89PNG")
    return (folder / "demo.svg").read_text()


def test_the_svg_is_small_and_has_its_text_as_text(tmp_path: Path) -> None:
    text = svg(tmp_path)
    assert len(text.encode()) < MAX_SVG_BYTES
    document = ElementTree.fromstring(text)  # noqa: S314
    words = {element.text for element in document.iter() if element.text}
    assert {"research", "vision", "vision asks", "accelerators held", "loss"} <= words
    assert any("8→4" in word for word in words)


def test_the_svg_is_the_same_for_the_same_data(tmp_path: Path) -> None:
    assert svg(tmp_path / "a") == svg(tmp_path / "b")


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_without_steps_has_a_chart_too(tmp_path: Path, count: int) -> None:
    assert "<svg" in svg(tmp_path, count)
