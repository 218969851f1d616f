"""A window of a trace under each way of sharing, and its figures."""

import pytest

from scheduler.simulate.assumptions import Assumptions
from scheduler.simulate.figures import Figures, figures, quantile
from scheduler.simulate.objects import JobSpec
from scheduler.simulate.replay import Run, Way, Window, replay
from tests.builders.simulated import teams

HOUR = 3600.0
SIZES = tuple(range(2, 9))
JOBS = [
    JobSpec("before", "research", 0.0, 2, 2 * HOUR),
    JobSpec("over", "research", 10.0, 2, 60.0),
    JobSpec("borrower", "research", HOUR + 60, 6, HOUR, sizes=SIZES[:5]),
    JobSpec("owner", "vision", HOUR + 900, 4, HOUR),
    JobSpec("later", "vision", 9 * HOUR, 1, HOUR),
]


def run_of(way: Way) -> Run:
    window = Window(HOUR, 4 * HOUR)
    return replay(JOBS, teams(vision=4, research=4), window, way, Assumptions(), lambda *_: None)


def figures_of(way: Way) -> Figures:
    return figures(run_of(way))


def test_jobs_that_run_when_the_window_begins_are_there_with_the_rest_of_their_work() -> None:
    run = run_of(Way.STOCK)
    assert [job.spec.name for job in run.earlier] == ["before"]
    assert run.earlier[0].spec.duration == HOUR
    assert [job.spec.name for job in run.jobs] == ["borrower", "owner"]


def test_stock_kueue_loses_the_work_of_the_borrower_and_cede_does_not() -> None:
    stock = figures_of(Way.STOCK)
    assert (stock.stops, stock.owners) == (1, 1)
    # 810 s of training, and the start of the second time
    assert stock.lost_h == pytest.approx(6 * (810 + 30) / HOUR, abs=0.01)
    cede = figures_of(Way.CEDE)
    assert (cede.stops, cede.lost_h, cede.owners) == (0, 0.0, 1)
    assert cede.shrinks >= 1
    assert cede.p95_to_owner_s < 15


def test_growth_counts_what_elastic_jobs_have_beside_what_is_idle_and_wanted() -> None:
    run = run_of(Way.CEDE)
    assert any(sample.grown for sample in run.samples)
    # the borrower waits in the cooldown after it was shrunk, then takes what the owner leaves
    grown = figures(run).grown
    assert grown is not None
    assert 0.6 < grown <= 1.0
    assert figures_of(Way.STOCK).grown is None


def test_private_partitions_share_nothing() -> None:
    private = figures_of(Way.PRIVATE)
    assert (private.stops, private.owners) == (0, 0)
    # six accelerators are more than research owns: it waits to the end
    assert private.teams[1].p95_wait_s == pytest.approx(3 * HOUR - 60, abs=1)
    assert private.finished == 2


def test_useful_work_is_what_was_not_lost() -> None:
    stock = figures_of(Way.STOCK)
    work_h = sum(team.work_h for team in stock.teams)
    assert stock.useful == pytest.approx(work_h / 8 / 3, abs=0.001)
    assert stock.useful < stock.in_use


def test_progress_is_reported_up_to_the_end() -> None:
    reports: list[float] = []
    window = Window(0.0, HOUR)
    replay(
        JOBS,
        teams(vision=4, research=4),
        window,
        Way.PRIVATE,
        Assumptions(),
        lambda _, part: reports.append(part),
    )
    assert reports == sorted(reports)
    assert reports[-1] == 1.0


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [([], 0.5, 0.0), ([3.0], 0.95, 3.0), ([1.0, 2.0, 3.0], 0.5, 2.0), ([1.0, 2.0], 1.0, 2.0)],
)
def test_quantile(values: list[float], part: float, expected: float) -> None:
    assert quantile(values, part) == expected
