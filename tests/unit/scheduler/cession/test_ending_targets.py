"""What a Cession says of stopped jobs whose pods still save."""

from cede.api.cession import Cession
from cede.api.cession_status import CessionStatus
from cede.api.objects import rfc3339
from scheduler.actions import UpdateCession
from scheduler.cession.advance import advance
from scheduler.snapshot.job_pods import JobPods
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.scheduler import NOW, admitted, cession, snapshot


def recorded(record: Cession, current: Snapshot) -> CessionStatus:
    actions = advance(record, current, NOW).actions
    return next(action.status for action in actions if isinstance(action, UpdateCession))


def test_the_message_says_until_when_a_stopped_job_may_save() -> None:
    """Also when the preemptor is admitted already: its pods wait for the nodes."""
    target = {"uid": "job-uid-gpt", "stopped": True, "releasedTime": rfc3339(NOW - 1)}
    record = cession("Admitted", 0, "Stop", targets=[target])
    owner = admitted("claim", "vision", 4, ready_pods=0)
    pods = {"job-uid-gpt": JobPods(on_nodes=2, ends_by=NOW + 20)}
    saving = recorded(record, snapshot(admitted=[owner], ending=pods))
    assert saving.targets[0].endingPods == 2
    until = rfc3339(NOW + 20)
    assert saving.message.endswith(f"its pods are starting. Pods of gpt may save until {until}.")
    record = cession("Admitted", 0, "Stop", targets=saving.model_dump()["targets"])
    ended = recorded(record, snapshot(admitted=[owner]))
    assert ended.targets[0].goneTime
    assert ended.message.endswith("its pods are starting.")
