"""The figures of the demo count every way of losing a step or a sample."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from deploy.demo.figures import (
    Account,
    GentleStop,
    account,
    gentle_stop,
    lost_by_ceding,
    lost_by_kill,
    pause_of_shrink,
    step_seconds,
)
from deploy.demo.record import Line, Step

MICRO_BATCHES = 4
PER_MICRO_BATCH = 2


def steps(*numbers: int, size: int = 4, step_s: float = 0.5) -> list[Step]:
    return [Step(n, 1.0, size, n * step_s) for n in numbers]


def samples(last: int, dataset: int = 1000) -> list[Line]:
    """The lines of an undisturbed job: it uses the samples of the data set in order."""
    lines: list[Line] = []
    for position in range(last * MICRO_BATCHES):
        first = position * PER_MICRO_BATCH
        line = {
            "step": position // MICRO_BATCHES + 1,
            "micro_batch": position % MICRO_BATCHES,
            "generation": 0,
            "samples": [sample % dataset for sample in range(first, first + PER_MICRO_BATCH)],
        }
        lines.append(line)
    return lines


def counted(log: list[Step], lines: Sequence[Line], dataset: int = 1000) -> Account:
    return account(log, lines, MICRO_BATCHES, PER_MICRO_BATCH, dataset)


def test_an_undisturbed_journal_has_lost_nothing() -> None:
    assert counted(steps(1, 2, 3, 4), samples(4)) == Account(
        3, 0, 3 * MICRO_BATCHES * PER_MICRO_BATCH, 0, 0
    )


@pytest.mark.parametrize(
    ("log", "lines", "expected"),
    [
        pytest.param(
            steps(1, 3, 4),
            samples(4),
            (1, MICRO_BATCHES * PER_MICRO_BATCH, 0),
            id="a step that no rank wrote, with its samples",
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
            (0, PER_MICRO_BATCH, 0),
            id="a missing micro-batch",
        ),
        pytest.param(
            steps(1, 2, 3, 4),
            [*samples(4), samples(1)[0]],
            (0, 0, PER_MICRO_BATCH),
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
def test_losses_and_repetitions_are_counted(
    log: list[Step], lines: Sequence[Line], expected: tuple[int, int, int]
) -> None:
    counts = counted(log, lines)
    assert (counts.steps_lost, counts.samples_lost, counts.samples_seen_twice) == expected


def test_a_sample_may_come_again_in_the_next_epoch() -> None:
    assert counted(steps(1, 2, 3, 4), samples(4, dataset=8), dataset=8).samples_seen_twice == 0


def test_the_entries_of_all_ranks_are_one_step() -> None:
    assert counted(steps(1, 2, 3, 4) * 4, samples(4)) == Account(
        3, 0, 3 * MICRO_BATCHES * PER_MICRO_BATCH, 0, 0
    )


def test_samples_of_a_repeated_step_count_once() -> None:
    again = [{**line, "generation": 2} for line in samples(4) if line["step"] == 3]
    log = [*steps(1, 2), Step(3, 1.0, 3, 9.0, 2), *steps(4)]
    assert counted(log, [*samples(4), *again]) == Account(
        3, 0, 3 * MICRO_BATCHES * PER_MICRO_BATCH, 0, 0
    )


def test_the_pause_is_that_of_the_slowest_survivor_of_the_first_shrink() -> None:
    """The gap is the time between the two commits beyond a step."""
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


def test_a_kill_loses_repeated_steps_and_the_time_of_the_restart() -> None:
    # a step a second; saved after step 20
    before = [Step(n, 1.0, 8, float(n)) for n in range(1, 26)]
    after = [Step(n, 1.0, 8, 100.0 + n) for n in range(21, 30)]
    kill = lost_by_kill(before + after, killed_at=25.5, restarted_at=110.0, accelerators=8)
    assert kill.steps_lost == 5
    assert kill.accelerator_seconds_lost == (5.5 + 11.0) * 8


def test_a_killed_job_that_did_not_restart_is_an_error() -> None:
    with pytest.raises(ValueError, match="both are needed"):
        lost_by_kill(steps(1, 2), 2.0, 3.0, 8)


def test_the_step_duration_is_the_median_of_consecutive_steps() -> None:
    assert step_seconds(steps(1, 2, 3, 9), 4) == 0.5


def test_a_sample_missing_in_a_micro_batch_is_lost() -> None:
    half = [{**line, "samples": line["samples"][:1]} for line in samples(4)]
    assert counted(steps(1, 2, 3, 4), half).samples_lost == 3 * MICRO_BATCHES


def test_a_pause_that_was_not_recorded_is_nan() -> None:
    assert math.isnan(pause_of_shrink([*steps(1, 2, size=8), *steps(3, 4, 5)]).ms)


def resized(pause_s: float = 0.2, start_s: float = 10.0) -> list[Step]:
    """Steps of half a second: 1-4 on 8, then 5-8 on 4, then 9-12 on 8."""
    log = [Step(n, 1.0, 8, n * 0.5) for n in range(1, 5)]
    log += [Step(n, 1.0, 4, pause_s + n * 0.5, 1) for n in range(5, 9)]
    return log + [Step(n, 1.0, 8, start_s + pause_s + n * 0.5, 2) for n in range(9, 13)]


@pytest.mark.parametrize(
    ("log", "joined", "expected"),
    [
        pytest.param(resized(0.0, 0.0), [], 0.0, id="resizes that take no time"),
        pytest.param(
            resized(0.2, 0.0), [], 0.8, id="the pause of a shrink, for each rank that stays"
        ),
        pytest.param(resized(0.0, 3.0), [], 12.0, id="the pause of a growth too"),
        pytest.param(
            resized(0.0, 0.0), [2.5, 3.5], 3.0, id="a joiner from its start to its first step"
        ),
        pytest.param(
            [*resized(0.0, 0.0), Step(4, 1.0, 8, 2.0, -1)],
            [],
            4.0,
            id="a repeated step, for each rank that repeats it",
        ),
        pytest.param(steps(1, 2, 3), [1.0], 0.0, id="no resize"),
    ],
)
def test_the_time_lost_by_ceding_is_counted_as_for_a_kill(
    log: list[Step], joined: list[float], expected: float
) -> None:
    assert lost_by_ceding(log, joined) == pytest.approx(expected)


BEFORE = [Step(n, 1.0, 4, n * 0.5) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        pytest.param([4, 5], GentleStop(5, 0, 3.0), id="nothing lost"),
        pytest.param([3, 4], GentleStop(4, 1, 3.0), id="a step that was done twice"),
        pytest.param([5], GentleStop(5, 1, 3.0), id="a step that is missing"),
    ],
)
def test_a_stopped_job_loses_the_steps_that_it_repeats(
    again: list[int], expected: GentleStop
) -> None:
    assert gentle_stop([*BEFORE, *(Step(n, 1.0, 4, 9.0 + n, 3) for n in again)]) == expected


def test_a_stop_after_which_the_job_never_began_again_is_not_measured() -> None:
    assert math.isnan(gentle_stop(BEFORE).saved_step)
