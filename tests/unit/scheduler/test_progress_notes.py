"""What is noted of how far jobs are, and when it is written."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cede.api.job_progress import MAX_JOBS, MAX_REASON, JobProgress, Progress
from elastic_runtime.contract import State, Status, decode_status
from scheduler.faults import Faults
from scheduler.progress_notes import (
    CONFIRM_S,
    MAX_WRITES,
    MIN_INTERVAL_S,
    NOBODY,
    RETRY_S,
    ROUND_S,
    SILENT_S,
    Report,
    Written,
    due,
    notes,
    progress_of,
)
from scheduler.snapshot.observations import Observed, note_refusal, observe

NOW = 1_700_000_000.0
NOTHING_KNOWN = JobProgress()


def status(step: int = 1200, saved: int = 1180, **fields: object) -> Status:
    known = {"state": State.TRAINING, "step": step, "durableStep": saved, "loss": 2.5}
    return Status(**known | fields)  # type: ignore[arg-type]


def report(answer: Status | None, observed: Observed | None = None, uid: str = "uid") -> Report:
    return Report(("research", uid), uid, status=answer, observed=observed)


def written(progress: Progress, after_s: float) -> dict[str, Written]:
    """The note of namespace research, written so long before NOW."""
    return {"research": Written(progress, NOW - after_s)}


def noted_of(
    reports: Iterable[Report], before: Mapping[str, Progress], now: float
) -> dict[str, Progress]:
    faults = Faults()
    result = notes(reports, before, now, faults)
    assert not faults.all
    return result


# --- of one job -----------------------------------------------------------------------------------
def test_of_a_job_that_answers_its_step_its_loss_and_its_newest_save_are_noted() -> None:
    assert progress_of(report(status()), NOTHING_KNOWN, NOW) == JobProgress(
        answered=int(NOW), step=1200, saved_step=1180, loss=2.5
    )


def test_a_save_has_the_time_at_which_the_scheduler_first_saw_it() -> None:
    observed = observe(observe(None, status(saved=1100), NOW - 90), status(), NOW - 60)
    assert progress_of(report(status(), observed), NOTHING_KNOWN, NOW).saved == int(NOW - 60)


def test_a_new_leader_keeps_the_time_of_a_save_that_it_did_not_see() -> None:
    before = JobProgress(answered=5, step=1190, saved_step=1180, saved=int(NOW - 300))
    observed = observe(None, status(), NOW)
    assert progress_of(report(status(), observed), before, NOW).saved == int(NOW - 300)
    other = progress_of(report(status(saved=1200), observed), before, NOW)
    assert (other.saved_step, other.saved) == (1200, 0)


@pytest.mark.parametrize("loss", [None, float("inf"), float("nan")])
def test_a_loss_that_is_no_number_is_not_noted(loss: float | None) -> None:
    """The script of `--restart` or `--signal` reports none."""
    assert progress_of(report(status(loss=loss)), NOTHING_KNOWN, NOW).loss is None


@given(st.integers(-(10**400), 10**400) | st.floats())
@example(10**309)
@example(-(10**400))
def test_whatever_loss_a_job_sends_its_step_is_noted_or_its_answer_does_not_count(
    loss: float,
) -> None:
    body = json.dumps({"step": 5, "loss": loss}).encode()
    try:
        answer = decode_status(body)
    except ValueError:
        return
    assert progress_of(report(answer), NOTHING_KNOWN, NOW).step == 5


def test_a_reason_of_a_job_is_short_and_commands_no_terminal() -> None:
    failure = "\x1b[2Jno space left on device\n" + "x" * 900
    noted = progress_of(report(status(saveMessage=failure)), NOTHING_KNOWN, NOW).save_failure
    assert noted.startswith("[2Jno space left on devicexx")
    assert len(noted) == MAX_REASON


def test_a_job_that_stops_answering_keeps_what_it_reported_and_says_since_when() -> None:
    known = progress_of(report(status()), NOTHING_KNOWN, NOW)
    waiting = progress_of(report(None), known, NOW + 10)
    assert (waiting.silence, waiting.step) == ("", 1200)
    silent = progress_of(report(None), waiting, NOW + 10 + SILENT_S)
    assert silent.silence == NOBODY
    assert (silent.silent_since, silent.answered) == (NOW + 10, NOW)
    assert progress_of(report(status()), silent, NOW + 60).silence == ""


def test_a_job_whose_pods_refuse_us_says_why() -> None:
    observed = note_refusal(None, "the signature is wrong", NOW)
    since = JobProgress(silent_since=int(NOW))
    silent = progress_of(report(None, observed), since, NOW + SILENT_S)
    assert silent.silence == "the signature is wrong"


def test_a_job_whose_pods_have_not_started_is_not_silent() -> None:
    known = JobProgress(answered=int(NOW - 900), step=7)
    starting = Report(("research", "uid"), "uid", has_pods=False)
    assert progress_of(starting, known, NOW) == known


# --- of a namespace -------------------------------------------------------------------------------
def test_a_job_that_is_gone_is_not_noted_any_more() -> None:
    before = noted_of([report(status(), uid="a"), report(status(), uid="b")], {}, NOW)
    assert before["research"].jobs.keys() == {"a", "b"}
    assert noted_of([report(status(), uid="b")], before, NOW)["research"].jobs.keys() == {"b"}
    assert noted_of([], before, NOW) == {}


def test_of_too_many_jobs_those_that_answered_last_are_noted_and_the_others_counted() -> None:
    starting = replace(report(status(), uid="old"), status=None, has_pods=False)
    known = {"research": Progress({"old": JobProgress(answered=int(NOW - 900), step=3)})}
    reports = [report(status(), uid=f"{number:05}") for number in range(MAX_JOBS)]
    noted = noted_of([starting, *reports], known, NOW)["research"]
    assert (len(noted.jobs), noted.left_out) == (MAX_JOBS, 1)
    assert "old" not in noted.jobs


def test_of_too_many_jobs_the_silent_ones_are_noted_first_and_since_when() -> None:
    """One that left the note would never be known to be silent."""
    known = {"research": Progress({"old": JobProgress(answered=int(NOW - 900), step=3)})}
    reports = [report(status(), uid=f"{number:05}") for number in range(MAX_JOBS)]
    first = noted_of([report(None, uid="old"), *reports], known, NOW)
    noted = noted_of([report(None, uid="old"), *reports], first, NOW + SILENT_S)["research"]
    assert (len(noted.jobs), noted.left_out) == (MAX_JOBS, 1)
    silent = noted.jobs["old"]
    assert (silent.step, silent.silent_since, silent.silence) == (3, int(NOW), NOBODY)


def test_a_report_that_cannot_be_noted_costs_only_its_own_line() -> None:
    no_float = status(loss=10**400)
    before = {"research": Progress({"bad": JobProgress(answered=5, step=3)})}
    faults = Faults()
    reports = [report(no_float, uid="bad"), report(status(), uid="good")]
    jobs = notes(reports, before, NOW, faults)["research"].jobs
    assert (jobs["bad"].step, jobs["good"].step) == (3, 1200)
    [fault] = faults.all
    assert fault.subject == "research/bad"


# --- when -----------------------------------------------------------------------------------------
CHANGED = Progress({"uid": JobProgress(answered=int(NOW), step=2)})
BEFORE = Progress({"uid": JobProgress(answered=int(NOW - 20), step=1)})


@pytest.mark.parametrize(
    ("wanted", "noted", "is_due"),
    [
        pytest.param(CHANGED, {}, True, id="never written"),
        pytest.param(CHANGED, written(BEFORE, MIN_INTERVAL_S), True, id="a step later"),
        pytest.param(CHANGED, written(BEFORE, MIN_INTERVAL_S - 1), False, id="not so soon again"),
        pytest.param(
            Progress({"uid": JobProgress(answered=int(NOW), step=1)}),
            written(BEFORE, MIN_INTERVAL_S),
            False,
            id="nothing is new but that it answers",
        ),
        pytest.param(
            Progress({"uid": JobProgress(answered=int(NOW - 20 + CONFIRM_S), step=1)}),
            written(BEFORE, CONFIRM_S),
            True,
            id="it still answers",
        ),
        pytest.param(Progress(), written(BEFORE, MIN_INTERVAL_S), True, id="no job any more"),
        pytest.param(Progress(), written(Progress(), CONFIRM_S), False, id="a foreign one"),
        pytest.param(Progress(), {}, False, id="nothing to say"),
        pytest.param(
            CHANGED, {"research": Written(None, NOW - RETRY_S + 1)}, False, id="refused lately"
        ),
        pytest.param(
            CHANGED, {"research": Written(None, NOW - RETRY_S)}, True, id="refused a while ago"
        ),
        pytest.param(Progress(), {"research": Written(None)}, True, id="that nobody can read"),
    ],
)
def test_a_note_is_written(wanted: Progress, noted: dict[str, Written], is_due: bool) -> None:
    assert due({"research": wanted}, noted, NOW) == (["research"] if is_due else [])


def test_ten_thousand_jobs_cost_two_writes_a_second_and_no_namespace_is_left_out() -> None:
    """100 namespaces with 100 jobs each, which all step, for two minutes."""
    teams = [f"team-{number:03}" for number in range(100)]
    noted = dict[str, Written]()
    writes = dict.fromkeys(teams, 0)
    rounds = round(120 / ROUND_S)
    for number in range(rounds):
        now = NOW + number * ROUND_S
        job = JobProgress(answered=int(now), step=number)
        wanted = dict.fromkeys(teams, Progress(dict.fromkeys(map(str, range(100)), job)))
        chosen = due(wanted, noted, now)
        assert len(chosen) <= MAX_WRITES
        for team in chosen:
            writes[team] += 1
            noted[team] = Written(wanted[team], now)
    assert sum(writes.values()) == rounds * MAX_WRITES == 240
    assert set(writes.values()) == {2, 3}
