"""What the journal says of a job of many processes that is resized and loses some."""

import os

import pytest

from tests.bench.runtime import job_course, many_processes, process_costs
from tests.bench.runtime.commits import Commit, lost_steps
from tests.bench.runtime.job_course import Change, Course


def generation(era: int, ranks: str, first_step: int, *times: float) -> list[Commit]:
    return [
        Commit(time, rank, first_step + number, len(ranks), era)
        for rank in ranks
        for number, time in enumerate(times)
    ]


ALONE = generation(1, "a", 1, 1.0, 2.0)
BOTH = generation(2, "ab", 3, 5.0, 6.0, 7.0, 8.0)
AFTER = generation(3, "a", 7, 11.0, 12.0, 13.0, 14.0)
RETURN = generation(4, "ab", 11, 17.0, 18.0, 19.0)


def test_a_job_has_started_when_all_of_its_ranks_have_made_a_step() -> None:
    assert job_course.first_common_step(ALONE + BOTH, pods=2) == 5.0
    assert job_course.first_common_step(ALONE, pods=2) is None


def test_a_rank_that_is_missing_delays_the_start() -> None:
    incomplete = [commit for commit in BOTH if commit.rank == "a"]
    assert job_course.first_common_step(incomplete + RETURN, pods=2) == 17.0


def test_a_change_is_followed_by_the_next_generation_of_its_size() -> None:
    commits = ALONE + BOTH + AFTER + RETURN
    shrunk = job_course.resumed_after(commits, Change("shrink", began=8.5, size=1))
    grown = job_course.resumed_after(commits, Change("growth", began=14.5, size=2))
    assert shrunk
    assert (shrunk.last, shrunk.first, shrunk.pause_s) == (8.0, 11.0, 2.0)
    assert grown
    assert (grown.last, grown.first, grown.pause_s) == (14.0, 17.0, 2.0)


def test_a_change_that_never_ended_has_no_figure() -> None:
    assert job_course.resumed_after(ALONE + BOTH, Change("shrink", began=7.5, size=1)) is None


def test_the_steps_of_the_time_before_the_changes_are_timed() -> None:
    assert job_course.step_s(BOTH + AFTER, began=5.5, ended=9.0) == [1.0, 1.0]


@pytest.mark.parametrize(
    ("commits", "lost"),
    [
        pytest.param(ALONE + BOTH + AFTER, 0, id="every step once"),
        pytest.param(ALONE + AFTER, 4, id="steps are missing"),
        pytest.param(ALONE + generation(2, "a", 2, 3.0), 1, id="a step was committed twice"),
        pytest.param([], 0, id="no step yet"),
    ],
)
def test_lost_steps(commits: list[Commit], lost: int) -> None:
    assert lost_steps(commits) == lost


def test_what_was_not_reached_has_a_row_without_a_figure() -> None:
    course = Course(8, 0.0, changes=[Change("shrink", 1.0, 7)], failure="ended early: no time")
    rows = job_course.cost_rows(course)
    assert all(not row.ours and row.met is None for row in rows)
    assert not job_course.change_row(course, course.changes[0], None).ours


def test_the_cost_of_this_process_is_known() -> None:
    cost = process_costs.cost_of(os.getpid())
    assert cost
    assert cost.memory_bytes > 1 << 20
    assert cost.threads >= 1
    assert cost.open_files >= 3
    assert process_costs.cpu_s([os.getpid()]) > 0


def test_a_process_that_has_ended_costs_nothing() -> None:
    assert process_costs.costs_of([1 << 22]) == []
    assert process_costs.cpu_s([1 << 22]) == 0


def test_a_machine_without_the_memory_is_refused() -> None:
    assert "give a smaller --pods" in many_processes.missing(1_000_000)
    assert many_processes.missing(1) == ""
