"""How the benchmark of the levels counts: from journals to costs, from costs to a table."""

import json

import pytest

from tests.bench.levels.__main__ import Results, document, table
from tests.bench.levels.figures import (
    Cost,
    Turn,
    cost_of_resizes,
    cost_of_shrink,
    cost_of_stop,
    is_between_saves,
    turn,
)
from tests.bench.levels.jobs import LEVELS, PODS, Level, target
from tests.bench.runtime.commits import Commit
from tests.builders.jobs import TEAM
from webhook.admission import AdmissionRequest
from webhook.rules import complaints


def commits(era: int, world: int, first: int, *times: float) -> list[Commit]:
    return [Commit(time, "0", first + n, world, era) for n, time in enumerate(times)]


OLD = commits(1, 4, 1, 1.0, 2.0, 3.0)


def test_a_job_that_trains_on_has_lost_nothing_but_the_gap() -> None:
    new = commits(2, 2, 4, 6.0, 8.0, 10.0)
    assert turn([*OLD, *new], 3.5, 2) == Turn(kept=3.0, first=6.0, step_s=2.0, steps_lost=0)


def test_repeated_steps_are_lost_and_the_work_ended_before_them() -> None:
    new = commits(2, 4, 2, 9.0, 10.0, 11.0)
    result = turn([*OLD, *new], 3.5, 4)
    assert result == Turn(kept=1.0, first=9.0, step_s=1.0, steps_lost=2)
    assert result
    assert result.gap_s == 7.0


def test_a_step_that_is_missing_is_lost() -> None:
    result = turn([*OLD, *commits(2, 2, 5, 6.0, 7.0, 8.0)], 3.5, 2)
    assert result
    assert result.steps_lost == 1


@pytest.mark.parametrize(
    "new",
    [
        pytest.param([], id="none"),
        pytest.param(commits(2, 2, 4, 6.0, 8.0), id="too few steps"),
        pytest.param(commits(2, 3, 4, 6.0, 8.0, 10.0), id="another size"),
        pytest.param(commits(1, 4, 4, 6.0, 8.0, 10.0), id="the membership is the same"),
    ],
)
def test_a_job_has_not_turned_before_it_trains_with_its_new_size(new: list[Commit]) -> None:
    assert turn([*OLD, *new], 3.5, 2) is None


def test_resizes_cost_what_leaves_what_waits_and_what_joins() -> None:
    shrink = Turn(kept=10.0, first=13.0, step_s=1.0, steps_lost=0)
    growth = Turn(kept=30.0, first=34.0, step_s=1.0, steps_lost=1)
    cost = cost_of_resizes(shrink, growth, 9.0, 14.0, joined=[28.0, 29.0], stay=2)
    leave = 2 * 4.0
    stay = 2 * (2.0 + 3.0)
    join = 5.0 + 4.0
    assert cost == Cost(5.0, 4.0, 1, leave + stay + join)


def test_a_stop_costs_all_accelerators_from_the_last_step_that_counts() -> None:
    back = Turn(kept=7.0, first=60.0, step_s=1.0, steps_lost=3)
    cost = cost_of_stop(back, 9.0, 14.0, ended=40.0, running=45.0, accelerators=4)
    assert cost == Cost(5.0, 20.0, 3, 4 * 7.0 + 4 * 14.0)


def test_without_an_owner_the_end_of_the_ranks_that_leave_counts() -> None:
    shrink = Turn(kept=10.0, first=13.0, step_s=1.0, steps_lost=0)
    assert cost_of_shrink(shrink, 10.5, 12.0, 2, 2) == Cost(None, 2.5, 0, 2 * 2.0 + 2 * 2.0)


def test_a_killed_rank_costs_all_accelerators_the_steps_that_are_repeated_and_the_pause() -> None:
    back = turn([*OLD, *commits(2, 4, 2, 9.0, 10.0, 11.0)], 3.5, 4)
    assert back
    assert cost_of_shrink(back, 3.5, 3.5, 0, 4) == Cost(None, 5.5, 2, 4 * 7.0)


@pytest.mark.parametrize(("steps", "expected"), [(4, False), (5, True), (6, False)])
def test_a_claim_comes_half_way_between_two_saves(steps: int, expected: bool) -> None:
    log = commits(1, 4, 1, *(float(n) for n in range(steps)))
    assert is_between_saves(log, 4, 10) == expected
    assert not is_between_saves(log, 2, 10)


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_target_of_each_level_has_four_accelerators_and_is_accepted(level: Level) -> None:
    job = target(level, "t", "/shared/run", "/shared/run/t")
    assert complaints(AdmissionRequest(job, user="alice", team=TEAM)) == []
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert (
        int(container["resources"]["limits"]["nvidia.com/gpu"]) * job["spec"]["parallelism"] == PODS
    )
    assert container["command"][-1].count("/shared/run/t") == 1


RESULTS: Results = {
    "L1": [Cost(1.0, 2.0, 0, 3.0), Cost(3.0, 4.0, 0, 5.0), Cost(2.0, 3.0, 0, 4.0)],
    "torchrun": [Cost(None, 20.0, 5, 80.0)],
    "kill": "not measured: waited 240 s for the cluster",
}


def test_a_row_has_medians_and_spread_and_one_without_figures_says_why() -> None:
    _, _, restarted, torchrun, kill = table(RESULTS)
    assert restarted == "| L1: restart in the pod | 3 | 2 (1–3) | 3 (2–4) | 0 (0–0) | 4 (3–5) |"
    assert "| 1 | – | 20 (20–20) | 5 (5–5) |" in torchrun
    assert "waited 240 s" in kill
    assert kill.count("|") == restarted.count("|")


def test_the_document_has_every_run() -> None:
    rows = json.loads(document(RESULTS, {"runs": 3}))["rows"]
    assert rows["L1"]["seconds to owner"] == [1.0, 3.0, 2.0]
    assert rows["kill"].startswith("not measured")
