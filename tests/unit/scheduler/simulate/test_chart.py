"""The picture of a simulation."""

from xml.etree import ElementTree

from scheduler.simulate.chart import draw
from scheduler.simulate.replay import Sample
from tests.unit.scheduler.simulate.test_report import way_figures

RESULTS = [way_figures("stock <Kueue>", 10.0), way_figures("Cede", 0.0)]
SAMPLES = [
    [Sample(0.0, 0, 0, 0), Sample(43200.0, 8, 0, 0)],
    [Sample(0.0, 4, 0, 0), Sample(43200.0, 8, 0, 0)],
]


def test_the_picture_is_svg_with_a_line_and_bars_for_each_way() -> None:
    root = ElementTree.fromstring(draw(RESULTS, SAMPLES, 8))  # noqa: S314
    tags = [element.tag.split("}")[1] for element in root]
    assert tags.count("polyline") == 2
    texts = [element.text for element in root if element.tag.endswith("text")]
    assert "stock <Kueue>" in texts
    assert "0.5 days" in texts
    assert {"10.0", "0.0"} <= set(texts)


def test_a_picture_of_nothing_is_drawn_too() -> None:
    empty = [way_figures("Cede", 0.0)]
    assert ElementTree.fromstring(draw(empty, [[]], 8)) is not None  # noqa: S314
