"""Which actions run at the same time, and in which order."""

from cede.api.reasons import SchedulerEvent
from scheduler.action_stages import stages
from scheduler.actions import (
    Action,
    OpenCession,
    RecordEvent,
    RequestSize,
    ResizeJob,
    SetQueueingStrategy,
    UpdateCession,
)
from tests.builders.scheduler import cession


def resize(name: str, size: int = 4) -> Action:
    return ResizeJob(("research", name), f"uid-{name}", "7", size, True, "why")


def request(name: str) -> Action:
    return RequestSize(("research", name), f"uid-{name}", ("10.0.0.1",), 4)


RECORD = UpdateCession("c-1", cession("Asked").status)
RESERVE = SetQueueingStrategy("vision", "StrictFIFO", "7")
EVENT = RecordEvent(("research", "a"), "uid-a", SchedulerEvent.CEDED, "note")


def test_the_targets_of_a_burst_are_resized_at_the_same_time() -> None:
    jobs = [resize(f"j{index}") for index in range(300)]
    assert list(stages(jobs)) == [[[job] for job in jobs]]


def test_a_record_waits_for_all_that_comes_before_it() -> None:
    order = [RESERVE, resize("a"), resize("b"), RECORD, EVENT]
    expected = [[[RESERVE]], [[resize("a")], [resize("b")]], [[RECORD]], [[EVENT]]]
    assert list(stages(order)) == expected


def test_the_actions_on_one_job_keep_their_order() -> None:
    [chains] = stages([request("a"), resize("b"), resize("a")])
    assert chains == [[request("a"), resize("a")], [resize("b")]]


def test_nothing_runs_beside_a_new_cession() -> None:
    opened = OpenCession(cession())
    assert list(stages([resize("a"), opened, resize("b")])) == [
        [[resize("a")]],
        [[opened]],
        [[resize("b")]],
    ]
