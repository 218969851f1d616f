"""The text of `cede status` and `cede explain`."""

from cede.causes.cessions import CessionSummary
from cede.report.explanation import Explanation
from cede.report.status import Status, Team
from cede.report.text import explanation_lines, status_lines, table

HEALTHY = Status(
    mode="Enforce",
    preemption="Cede",
    leader="s-1",
    instance_types=("a100: 2 of 2 nodes are healthy",),
    teams=(Team("vision", "vision", "4 gpu", "0 gpu", "4 gpu", "", True),),
    open_cessions=(),
    ended_cessions=(),
    attention=(),
)
ENDED = CessionSummary(
    name="c-8",
    phase="Completed",
    preemptor="vision/claim",
    targets="research/gpt 8 → 4",
    seconds="3.2",
    age_s=992,
    why="because",
    message="",
)
NOTHING = Status("", "", "", (), (), (), (), ())


def text(status: Status) -> str:
    return "\n".join(status_lines(status))


def test_a_healthy_cluster() -> None:
    assert text(HEALTHY).splitlines() == [
        "Policy   mode Enforce: Cede asks jobs to shrink or to save before they stop",
        "Leader   s-1",
        "Nodes    a100: 2 of 2 nodes are healthy",
        "",
        "TEAM    NAMESPACE  OWNS   USES   LENDS  BORROWS  READY",
        "vision  vision     4 gpu  0 gpu  4 gpu  -        yes",
        "",
        "Open Cessions: none",
        "",
        "Ended Cessions: none",
    ]


def test_a_cluster_without_a_policy() -> None:
    lines = text(NOTHING).splitlines()
    assert lines[:2] == ["Policy   none that can be read", "Leader   none"]


def test_a_policy_that_nobody_has_read_yet() -> None:
    status = Status("Enforce", "", "", (), (), (), (), ())
    assert "has not reported yet who preempts" in text(status)


def test_a_cession_is_one_line() -> None:
    status = Status("", "", "", (), (), (), (ENDED,), ())
    line = "  c-8: research/gpt 8 → 4 for vision/claim; Completed in 3.2 s, 16 min ago. because"
    assert line in text(status).splitlines()


def test_problems_come_last() -> None:
    status = Status("", "", "", (), (), (), (), ("the queue is on hold",))
    assert text(status).endswith("\nNeeds attention\n  the queue is on hold")


def test_an_explanation_is_a_state_and_its_sentences() -> None:
    explanation = Explanation("vision", "claim", "Waiting", ("It waits.", "Kueue reports: no."))
    assert list(explanation_lines(explanation)) == [
        "vision/claim: Waiting",
        "  It waits.",
        "  Kueue reports: no.",
    ]


def test_a_table_fills_empty_cells() -> None:
    assert list(table([("A", "BB"), ("", "b")])) == ["A  BB", "-  b"]
