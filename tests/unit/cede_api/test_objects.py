"""Paths, metadata, times and conditions of API objects."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api import names
from cede.api.objects import (
    CLUSTER_QUEUES,
    JOBS,
    MAX_CONDITION_MESSAGE,
    NODES,
    OURS,
    PODS,
    Condition,
    Json,
    Key,
    Kind,
    Meta,
    is_true,
    rfc3339,
    set_condition,
    unix,
)
from tests.laws.sources import name, sources

NAME = r"(names\.\w+|\"[^\"]+\")"
READ = re.compile(
    rf"\b(?:annotations|notes)(?:\.get\(|\[)\s*{NAME}|{NAME} (?:not )?in [\w.]*annotations\b"
)
"""A read of an annotation, and its name."""
TIMES = st.integers(min_value=0, max_value=4_000_000_000)


@pytest.mark.parametrize(
    ("kind", "key", "subresource", "expected"),
    [
        (PODS, ("a", "p"), "", "/api/v1/namespaces/a/pods/p"),
        (NODES, ("", "n"), "", "/api/v1/nodes/n"),
        (NODES, ("ignored", "n"), "", "/api/v1/nodes/n"),
        (JOBS, ("a", "j"), "status", "/apis/batch/v1/namespaces/a/jobs/j/status"),
        (CLUSTER_QUEUES, ("", "q"), "", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q"),
        (JOBS, ("a", "../../b"), "", "/apis/batch/v1/namespaces/a/jobs/..%2F..%2Fb"),
    ],
)
def test_path_of_an_object(kind: Kind, key: Key, subresource: str, expected: str) -> None:
    assert kind.path(key, subresource=subresource) == expected


def test_path_of_a_collection() -> None:
    assert JOBS.path() == "/apis/batch/v1/jobs"
    assert JOBS.path(namespace="a") == "/apis/batch/v1/namespaces/a/jobs"
    assert NODES.path(namespace="a") == "/api/v1/nodes"


def test_api_version_of_the_core_group_has_no_group() -> None:
    assert (PODS.api_version, JOBS.api_version) == ("v1", "batch/v1")


def test_only_annotations_that_we_read_are_kept() -> None:
    """kubectl keeps a copy of each object in one, of up to 256 KiB."""
    ours = {names.SIZES: "2-8", names.ELASTIC_JOB: "true"}
    copy = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    metadata = msgspec.convert({"name": "gpt", "annotations": copy | ours}, Meta)
    assert metadata == Meta("gpt", annotations=ours)


def test_every_annotation_that_is_read_is_kept() -> None:
    reading = sources("cede", "ledger", "quota_controller", "scheduler", "whatif")
    reads = {
        (name(path), *filter(None, match))
        for path in reading
        for match in READ.findall(path.read_text())
    }
    read = {(path, getattr(names, text.removeprefix("names."), text)) for path, text in reads}
    assert len(read) > 30
    assert [(path, text) for path, text in sorted(read) if not text.startswith(OURS)] == []


@given(TIMES)
def test_a_time_reads_back(seconds: int) -> None:
    assert unix(rfc3339(seconds)) == seconds


@given(st.floats(min_value=0, max_value=4e9))
def test_a_micro_time_reads_back_to_the_microsecond(seconds: float) -> None:
    text = rfc3339(seconds, micro=True)
    assert abs(unix(text) - seconds) < 2e-6
    assert len(text) == len("2026-01-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-01T00:00:00.500000Z", 0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_times_as_the_api_server_writes_them(text: str | None, seconds: float) -> None:
    assert unix(text) == pytest.approx(seconds)
    assert Meta(creationTimestamp=text).created == pytest.approx(seconds)


READY: Json = {
    "type": "Ready",
    "status": "True",
    "reason": "Fine",
    "message": "ok",
    "lastTransitionTime": rfc3339(100),
}


def test_the_transition_time_changes_only_with_the_status() -> None:
    (same,) = set_condition([READY], "Ready", True, "Other", "still", generation=2, now=500)
    assert same["lastTransitionTime"] == rfc3339(100)
    assert (same["reason"], same["observedGeneration"]) == ("Other", 2)
    (changed,) = set_condition([READY], "Ready", False, "Broken", "no", generation=2, now=500)
    assert (changed["lastTransitionTime"], changed["status"]) == (rfc3339(500), "False")


def test_a_message_is_cut_to_what_a_condition_may_hold() -> None:
    longest = "m" * MAX_CONDITION_MESSAGE
    for message, written in ((longest, longest), (longest + "m", longest[:-1] + "…")):
        (entry,) = set_condition([], "Ready", False, "R", message, generation=1, now=1)
        assert entry["message"] == written


def test_other_conditions_stay_as_they_are() -> None:
    other = {**READY, "type": "Other"}
    assert set_condition([other, READY], "Ready", None, "New", "", generation=1, now=1)[0] == other


@given(st.sampled_from([True, False, None]), TIMES, TIMES)
def test_setting_a_condition_again_changes_nothing(
    status: bool | None, now: int, later: int
) -> None:
    once = set_condition([READY], "Ready", status, "R", "m", generation=3, now=now)
    assert set_condition(once, "Ready", status, "R", "m", generation=3, now=later) == once


def test_a_condition_is_true_only_with_status_true() -> None:
    conditions = [Condition("A", "True"), Condition("B", "False"), Condition("C")]
    assert [is_true(conditions, name) for name in "ABCD"] == [True, False, False, False]
