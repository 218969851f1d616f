"""The rows of `cede history`."""

from typing import Any

from cede.api.alternative import Alternative
from cede.api.cession import Cession
from cede.api.objects import rfc3339
from cede.api.preference_reasons import PreferenceReason
from cede.report.history import COLUMNS, WIDE_COLUMNS, history_table, takes
from tests.builders.reports import stopping_cession

START = 1000.0


def cession(name: str = "c-1", started: float = START, **status: Any) -> Cession:
    """Job research/gpt gives to vision/inference."""
    body = stopping_cession()
    body["metadata"] = {"name": name, "creationTimestamp": rfc3339(started)}
    body["status"] = {"phase": "Pending"} | status
    return Cession.model_validate(body)


def after(seconds: float) -> str:
    return rfc3339(START + seconds)


COMPLETED = cession(
    phase="Completed",
    targets=[{"uid": "u", "askedTime": after(1), "cededTime": after(3)}],
    releasedTime=after(4),
    admittedTime=after(5),
    readyTime=after(9),
    completionTime=after(9),
)


def test_a_completed_cession_has_every_stage() -> None:
    [take] = takes([COMPLETED], "", 0.0)
    headings, row = history_table([take], wide=False)
    cells = dict(zip(headings, row, strict=True))
    assert headings == COLUMNS
    assert (cells["FOR"], cells["FROM"]) == ("vision/inference", "research/gpt 8 → 0")
    assert (cells["PHASE"], cells["REASON"]) == ("Completed", "ReclaimOwnQuota")
    assert row[6:] == ("1 s", "3 s", "4 s", "5 s", "9 s", "9 s")


def test_a_stage_that_was_not_reached_is_empty() -> None:
    [take] = takes([cession()], "", 0.0)
    assert history_table([take], wide=False)[1][6:] == ("",) * 6
    assert (take.asked, take.ended) == ("", "")


def test_a_target_that_was_forced_is_named() -> None:
    [take] = takes([cession(targets=[{"uid": "u", "forcedTime": after(60)}])], "", 0.0)
    assert take.forced == ("research/gpt 8 → 0",)


def test_the_oldest_comes_first_and_earlier_ones_are_left_out() -> None:
    cessions = [cession("new", 3000), cession("old", 1000), cession("middle", 2000)]
    assert [take.name for take in takes(cessions, "", 0.0)] == ["old", "middle", "new"]
    assert [take.name for take in takes(cessions, "", 2000)] == ["middle", "new"]


def test_a_namespace_has_what_it_needs_and_what_it_gives() -> None:
    assert len(takes([COMPLETED], "vision", 0.0)) == 1
    assert len(takes([COMPLETED], "research", 0.0)) == 1
    assert takes([COMPLETED], "other", 0.0) == []


def test_the_wide_table_has_the_sentences() -> None:
    table = history_table(takes([COMPLETED], "", 0.0), wide=True)
    assert table[0][-3:] == WIDE_COLUMNS
    assert table[1][-3:-1] == ("it is theirs", "")


def test_the_wide_table_has_what_would_have_been_done_without_a_target() -> None:
    record = cession()
    reason = PreferenceReason.NO_OTHER_JOBS
    record.spec.alternatives = [Alternative(spared="u", reason=reason)]
    [take] = takes([record], "", 0.0)
    [sentence] = take.alternatives
    assert sentence.startswith("Without research/gpt: ")
    assert history_table([take], wide=True)[1][-2] == sentence
