"""The demo's figures are counted, not claimed: every way of losing a sample shows."""

import math
from dataclasses import replace

import pytest

from deploy.demo.__main__ import bad
from deploy.demo.figures import (
    Account,
    Step,
    account,
    lost_by_ceding,
    lost_by_kill,
    pause_of_shrink,
    step_seconds,
)
from deploy.demo.kubectl import parsed

MICRO_BATCHES = 4
PER = 2


def steps(*numbers: int, size: int = 4, every: float = 0.5) -> list[Step]:
    return [Step(n, 1.0, size, n * every) for n in numbers]


def samples(last: int, dataset: int = 1000) -> list[dict[str, object]]:
    return [
        {
            "step": s,
            "micro_batch": b,
            "generation": 0,
            "samples": [(((s - 1) * MICRO_BATCHES + b) * PER + j) % dataset for j in range(PER)],
        }
        for s in range(1, last + 1)
        for b in range(MICRO_BATCHES)
    ]


def counted(log: list[Step], lines: list[dict[str, object]], dataset: int = 1000) -> Account:
    return account(log, lines, MICRO_BATCHES, PER, dataset)


def test_an_undisturbed_log_has_lost_nothing() -> None:
    assert counted(steps(1, 2, 3, 4), samples(4)) == Account(3, 0, 3 * MICRO_BATCHES * PER, 0, 0)


@pytest.mark.parametrize(
    ("log", "lines", "expected"),
    [
        pytest.param(
            steps(1, 3, 4),
            samples(4),
            (1, MICRO_BATCHES * PER, 0),
            id="a step that no rank logged is lost, with its samples",
        ),
        pytest.param(
            [*steps(1, 2, 3, 4), Step(2, 1.0, 4, 9.0, 5)],
            samples(4),
            (1, 0, 0),
            id="a step committed by two generations",
        ),
        pytest.param(
            steps(1, 2, 3, 4),
            samples(4)[1:],
            (0, PER, 0),
            id="a missing micro-batch loses its samples",
        ),
        pytest.param(
            steps(1, 2, 3, 4),
            [*samples(4), samples(1)[0]],
            (0, 0, PER),
            id="a micro-batch used twice",
        ),
        pytest.param(
            steps(1, 2, 3, 4),
            [{**line, "samples": [7, 7]} if i == 0 else line for i, line in enumerate(samples(4))],
            (0, 0, 2),
            id="a sample that comes again in its epoch",
        ),
    ],
)
def test_what_is_lost_or_seen_twice_is_counted(
    log: list[Step], lines: list[dict[str, object]], expected: tuple[int, int, int]
) -> None:
    found = counted(log, lines)
    assert (found.steps_lost, found.samples_lost, found.samples_seen_twice) == expected


def test_the_same_sample_in_the_next_epoch_is_not_seen_twice() -> None:
    assert counted(steps(1, 2, 3, 4), samples(4, dataset=8), dataset=8).samples_seen_twice == 0


def test_what_every_rank_logs_of_a_step_is_one_step() -> None:
    assert counted(steps(1, 2, 3, 4) * 4, samples(4)) == Account(
        3, 0, 3 * MICRO_BATCHES * PER, 0, 0
    )


def test_samples_of_a_step_that_was_given_up_and_done_again_count_once() -> None:
    again = [{**line, "generation": 2} for line in samples(4) if line["step"] == 3]
    log = [*steps(1, 2), Step(3, 1.0, 3, 9.0, 2), *steps(4)]
    assert counted(log, [*samples(4), *again]) == Account(3, 0, 3 * MICRO_BATCHES * PER, 0, 0)


def test_the_pause_is_the_slowest_survivors_at_the_first_shrink_and_the_gap_what_lay_between_the_commits() -> (
    None
):
    # 0.5 s after step 2, then 0.4 s each
    after = [Step(n, 1.0, 4, 1.5 + (n - 3) * 0.4, 1) for n in (3, 4, 5)]
    log = [
        *steps(1, 2, size=8),
        replace(after[0], pause_ms=30.0),
        replace(after[0], pause_ms=40.0, time=1.51),
        *after[1:],
    ]
    pause = pause_of_shrink(log)
    assert pause.ms == 40.0
    assert pause.steps == pytest.approx(0.1)
    assert pause.gap_ms == pytest.approx(100.0)
    assert math.isnan(pause_of_shrink(steps(1, 2)).ms)


def test_a_kill_loses_the_steps_done_again_and_the_time_of_starting_again() -> None:
    # a step a second; saved after step 20
    before = [Step(n, 1.0, 8, float(n)) for n in range(1, 26)]
    after = [Step(n, 1.0, 8, 100.0 + n) for n in range(21, 30)]
    kill = lost_by_kill(before + after, killed_at=25.5, restarted_at=110.0, accelerators=8)
    assert kill.steps_lost == 5
    assert kill.accelerator_seconds_lost == (5.5 + 11.0) * 8


def test_a_killed_job_that_never_came_back_is_an_error_not_a_zero() -> None:
    with pytest.raises(ValueError, match="both are needed"):
        lost_by_kill(steps(1, 2), 2.0, 3.0, 8)


def test_step_seconds_is_the_median_over_neighbouring_steps_only() -> None:
    assert step_seconds(steps(1, 2, 3, 9), 4) == 0.5


def test_a_sample_missing_within_a_micro_batch_is_lost() -> None:
    half = [{**line, "samples": line["samples"][:1]} for line in samples(4)]  # type: ignore[index]
    assert counted(steps(1, 2, 3, 4), half).samples_lost == 3 * MICRO_BATCHES


def test_a_shrink_whose_survivors_did_not_say_their_pause_has_none_not_zero() -> None:
    assert math.isnan(pause_of_shrink([*steps(1, 2, size=8), *steps(3, 4, 5)]).ms)


def resized(pause_s: float = 0.2, start_s: float = 10.0) -> list[Step]:
    """Steps of half a second: 1-4 on 8, then 5-8 on 4, then 9-12 on 8."""
    log = [Step(n, 1.0, 8, n * 0.5) for n in range(1, 5)]
    log += [Step(n, 1.0, 4, pause_s + n * 0.5, 1) for n in range(5, 9)]
    return log + [Step(n, 1.0, 8, start_s + pause_s + n * 0.5, 2) for n in range(9, 13)]


@pytest.mark.parametrize(
    ("log", "joined", "expected"),
    [
        pytest.param(resized(0.0, 0.0), [], 0.0, id="resizes that take no time lose none"),
        pytest.param(resized(0.2, 0.0), [], 0.8, id="the pause of a shrink, for each that stays"),
        pytest.param(resized(0.0, 3.0), [], 12.0, id="the pause of a growth too"),
        pytest.param(
            resized(0.0, 0.0), [2.5, 3.5], 3.0, id="a joiner from its start to its first step"
        ),
        pytest.param(
            [*resized(0.0, 0.0), Step(4, 1.0, 8, 2.0, -1)],
            [],
            4.0,
            id="a step done again, for each that did it",
        ),
        pytest.param(steps(1, 2, 3), [1.0], 0.0, id="without a resize nothing"),
    ],
)
def test_the_time_that_ceding_loses_is_counted_by_the_rule_of_the_kill(
    log: list[Step], joined: list[float], expected: float
) -> None:
    assert lost_by_ceding(log, joined) == pytest.approx(expected)


GOOD = {"steps": 240, "steps_lost": 0, "samples_lost": 0, "samples_seen_twice": 0, "pause_ms": 37.0}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({}, [], id="good"),
        pytest.param({"steps_lost": 1}, ["steps_lost is 1"], id="a lost step"),
        pytest.param({"pause_ms": math.nan}, ["pause_ms was not measured"], id="not measured"),
        pytest.param({"steps": 0}, ["the job's journal holds no step"], id="an empty journal"),
    ],
)
def test_a_summary_is_good_only_with_evidence(change: dict[str, float], says: list[str]) -> None:
    assert bad(GOOD | change) == says


def test_a_line_that_was_cut_off_is_left_out_and_never_glued_to_the_next() -> None:
    assert parsed('{"step": 1}\n{"ste\n\n{"step": 2}\n') == [{"step": 1}, {"step": 2}]
