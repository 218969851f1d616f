"""What is known of a script for torchrun: its steps, its pace, and whether it is stopped."""

import math
import os
from pathlib import Path

import pytest

from elastic_runtime import contract
from elastic_runtime.agent.script_watch import MAX_STEPS, ScriptWatch, patience_from


@pytest.fixture
def watch() -> ScriptWatch:
    return ScriptWatch(patience_from({}))


def steps_after(watch: ScriptWatch, report: str) -> list[int]:
    Path(watch.path).write_text(report)
    return [step.step for step in watch.look(os.getpid())]


def test_the_first_report_is_the_step_that_was_loaded(watch: ScriptWatch) -> None:
    assert steps_after(watch, "1 7") == []
    assert watch.step == 7
    assert steps_after(watch, "3 9") == [8, 9]
    # Nothing new; it is being written; a call without a step; something else than steps.
    assert steps_after(watch, "3 9") == []
    assert steps_after(watch, "") == []
    assert steps_after(watch, "4 9") == []
    assert len(steps_after(watch, "5 100000")) == MAX_STEPS


def test_a_script_that_starts_again_may_be_back_at_an_earlier_step(watch: ScriptWatch) -> None:
    steps_after(watch, "1 7")
    watch.begin()
    assert not watch.has_reported
    assert watch.step == 7
    assert steps_after(watch, "1 5") == []
    assert steps_after(watch, "2 6") == [6]


def test_a_script_whose_step_is_unknown_only_makes_progress(watch: ScriptWatch) -> None:
    assert steps_after(watch, "1 -1") == []
    assert watch.has_reported
    assert watch.hang_reason() == ""


def test_a_process_that_has_ended_is_no_stopped_one(watch: ScriptWatch) -> None:
    assert watch.look(2**22 + 1) == []
    assert watch.hang_reason() == ""


def test_only_the_user_gives_a_step_a_timeout() -> None:
    assert patience_from({}).step_timeout_s == math.inf
    assert patience_from({}).early_timeout_s == 30.0
    chosen = patience_from({contract.STEP_TIMEOUT_ENV: "90", contract.LIVENESS_TIMEOUT_ENV: "9"})
    assert (chosen.step_timeout_s, chosen.early_timeout_s) == (90.0, 9.0)
