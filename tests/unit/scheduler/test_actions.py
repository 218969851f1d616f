"""Every action has fields for the log that say which object it is about."""

import pytest

from cede.api.reasons import SchedulerEvent
from scheduler import actions
from tests.builders.scheduler import cession

JOB = ("research", "gpt")


@pytest.mark.parametrize(
    ("action", "log_fields"),
    [
        (actions.OpenCession(cession()), {"cession": "c-1", "why": "because"}),
        (
            actions.UpdateCession("c-1", cession("Asked").status),
            {"cession": "c-1", "phase": "Asked"},
        ),
        (actions.DeleteCession("c-1", "u"), {"cession": "c-1"}),
        (
            actions.SetQueueingStrategy("vision", "StrictFIFO", "7"),
            {"queue": "vision", "strategy": "StrictFIFO"},
        ),
        (actions.RequestSize(JOB, "u", ("10.0.0.1",), 4), {"job": "research/gpt", "size": 4}),
        (actions.ResizeJob(JOB, "u", "7", 4, True, "why"), {"job": "research/gpt", "size": 4}),
        (
            actions.SetWorkloadActive(("research", "job-gpt"), "u", False, "why", "c-1"),
            {"workload": "research/job-gpt", "active": False, "why": "why"},
        ),
        (
            actions.RequeueWorkload(("vision", "job-claim"), "u", "main", "now"),
            {"workload": "vision/job-claim", "since": "now"},
        ),
        (
            actions.RecordEvent(JOB, "u", SchedulerEvent.CEDED, "note"),
            {"job": "research/gpt", "event": "Ceded"},
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_log_fields(action: actions.Action, log_fields: dict[str, object]) -> None:
    assert action.log_fields == log_fields
