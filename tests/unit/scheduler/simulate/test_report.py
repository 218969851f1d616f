"""The report of a simulation, as text and as JSON."""

import json

from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.figures import Figures, TeamFigures
from scheduler.simulate.report import Report


def way_figures(way: str, lost_h: float, grown: float | None = None) -> Figures:
    return Figures(
        way=way,
        in_use=0.9,
        useful=0.85,
        median_wait_s=0.0,
        p95_wait_s=120.0,
        owners=3,
        median_to_owner_s=2.0,
        p95_to_owner_s=4.0,
        lost_h=lost_h,
        stops=2,
        stopped_twice=1,
        shrinks=0,
        grown=grown,
        finished=10,
        teams=(TeamFigures("vision", 10, 0.0, 120.0, 5.0),),
    )


REPORT = Report(
    trace="t.csv",
    jobs=10,
    earlier=2,
    accelerators=8,
    days=1.0,
    elastic_fraction=0.5,
    elastic_jobs=4,
    seed=0,
    assumptions=Assumptions(),
    results=(way_figures("stock Kueue", 10.0), way_figures("Cede", 1.0, grown=0.75)),
)


def test_the_text_shows_each_way_beside_the_others_and_what_is_assumed() -> None:
    lines = REPORT.as_text().splitlines()
    assert lines[0].startswith("t.csv: 10 jobs of 1 teams in 1 days on 8 accelerators")
    assert "checkpoint_s=1800" in lines[1]
    words = [line.split() for line in lines]
    assert ["accelerator-hours", "lost", "10.0", "1.0"] in words
    assert ["growth,", "part", "of", "what", "was", "possible", "-", "75.0", "%"] in words
    assert ["vision", "0,", "120", "0,", "120"] in words


def test_the_json_has_every_figure() -> None:
    data = json.loads(REPORT.as_json())
    assert data["results"][1]["lost_h"] == 1.0
    assert data["results"][0]["teams"][0]["p95_wait_s"] == 120.0
    assert data["assumptions"]["checkpoint_s"] == 1800.0
