"""Traces and teams as CSV: what is read, and what each wrong line is told."""

import pytest

from scheduler.simulate.objects import JobSpec, TeamQuota
from scheduler.simulate.trace import TraceError, read_jobs, read_teams

TEAMS = [TeamQuota("vision", 4), TeamQuota("research", 4)]
HEADER = "submit,duration,accelerators,team\n"


def test_a_trace_is_read_in_the_order_of_submission() -> None:
    text = HEADER + "9,60,4,vision\n0,30.5,1,research\n"
    assert read_jobs(text, "t.csv", TEAMS) == [
        JobSpec("job-3", "research", 0.0, 1, 30.5),
        JobSpec("job-2", "vision", 9.0, 4, 60.0),
    ]


def test_other_columns_may_be_there_and_names_of_public_traces_are_known() -> None:
    text = "job_id,team,submit_s,gpus,duration_s,status,priority\nx,vision,1,2,3,pass,90\n"
    assert read_jobs(text, "t.csv", TEAMS) == [JobSpec("x", "vision", 1.0, 2, 3.0, 90)]


def test_a_job_takes_at_least_a_second() -> None:
    (job,) = read_jobs(HEADER + "0,0,1,vision\n", "t.csv", TEAMS)
    assert job.duration == 1.0


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x,60,4,vision", "t.csv:2: submit is 'x': it must be a number of at least 0"),
        ("-1,60,4,vision", "t.csv:2: submit is '-1': it must be a number of at least 0"),
        ("0,nan,4,vision", "t.csv:2: duration is 'nan': it must be a number of at least 0"),
        ("0,inf,4,vision", "t.csv:2: duration is 'inf': it must be a number of at least 0"),
        ("0,60,0,vision", "t.csv:2: accelerators is '0': it must be a number of at least 1"),
        ("0,60,1.5,vision", "t.csv:2: accelerators is 1.5: it must be a whole number"),
        ("0,60,4,sales", "t.csv:2: team is 'sales': it must be one of research, vision"),
        ("0,60", "t.csv:2: team is '': it must be one of research, vision"),
    ],
)
def test_a_wrong_line_is_named_with_what_it_should_be(line: str, complaint: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_jobs(f"{HEADER}{line}\n", "t.csv", TEAMS)
    assert str(raised.value) == complaint


def test_all_wrong_lines_are_named_at_once_up_to_ten() -> None:
    with pytest.raises(TraceError) as raised:
        read_jobs(HEADER + "x,60,4,vision\n" * 20, "t.csv", TEAMS)
    complaints = str(raised.value).splitlines()
    assert len(complaints) == 11
    assert complaints[-1] == "t.csv: more lines may be wrong"


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "submit,duration,team\n0,1,vision\n"])
def test_a_header_that_lacks_columns_says_which(text: str) -> None:
    with pytest.raises(TraceError, match=r"t\.csv:1: the header is .* it lacks .*accelerators"):
        read_jobs(text, "t.csv", TEAMS)


def test_a_trace_without_jobs_is_refused() -> None:
    with pytest.raises(TraceError, match="it has no jobs"):
        read_jobs(HEADER, "t.csv", TEAMS)


def test_teams_have_quotas_and_may_have_weights_and_limits() -> None:
    text = "team,quota,weight,borrowing_limit,lending_limit\na,8,2,4,0\nb,0,,,\n"
    assert read_teams(text, "q.csv") == [TeamQuota("a", 8, 2.0, 4, 0), TeamQuota("b", 0)]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("team,quota\na,8\na,4\n", "q.csv: team 'a' has two lines: it must have one"),
        ("team,quota\na,x\n", "q.csv:2: quota is 'x': it must be a number of at least 0"),
        ("team,quota\na,0\n", "q.csv: the quotas sum up to 0: at least one team must own"),
    ],
)
def test_wrong_teams_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(TraceError) as raised:
        read_teams(text, "q.csv")
    assert str(raised.value).startswith(complaint)
