"""The status of a Cession, as it is written."""

import json
from typing import Any

import pytest

from cede.api.cession import Cession, Target
from cede.api.cession_status import MAX_TARGETS, TargetStatus
from cede.api.resources import FlavorResource
from tests.builders.scheduler import cession

ETCD_LIMIT = 1_500_000
"""Bytes of one object that etcd accepts by default."""
TIME = "2026-01-01T00:00:00.000000Z"
STEPS = {"step": 123456, "durableStep": 123456}
TIMES = [name for name in TargetStatus.model_fields if name.endswith("Time")]


def test_a_target_is_written_without_what_has_not_happened() -> None:
    status = TargetStatus(uid="u", askedTime=TIME)
    assert status.model_dump() == {"uid": "u", "askedTime": TIME}
    assert TargetStatus.model_validate(status.model_dump()) == status


LOSS: dict[str, Any] = {
    "step": 70,
    "durableStep": 50,
    "unsaved": [{"flavor": "p5", "resource": "nvidia.com/gpu", "seconds": "800.0"}],
}
KIND = ("p5", "nvidia.com/gpu")


@pytest.mark.parametrize(
    ("status", "steps", "seconds"),
    [
        pytest.param({"cededTime": TIME}, 0, {}, id="it ceded and trains on"),
        pytest.param({"cededTime": TIME, "stopped": True}, 20, {KIND: 800}, id="it was stopped"),
        pytest.param({"stopped": True}, 20, {KIND: 800}, id="it was stopped before it ceded"),
        pytest.param({}, None, {KIND: None}, id="it was resized before it ceded"),
        pytest.param({"stopped": True, "step": 0}, None, {KIND: None}, id="it reported no step"),
        pytest.param({"completed": True}, 0, {}, id="it completed before it was resized"),
        pytest.param(
            {"step": 0, "withoutAccelerators": True, "unsaved": []},
            *(None, {}),
            id="without accelerators it lost no time of any, and perhaps steps",
        ),
        pytest.param(
            {"cededTime": TIME, "stopped": True, "durableStep": 70, "unsaved": []},
            *(0, {}),
            id="it had saved",
        ),
        pytest.param(
            {"cededTime": TIME, "stopped": True, "unsaved": []},
            *(20, None),
            id="recorded by an earlier version",
        ),
        pytest.param(
            {"cededTime": TIME, "stopped": True, "unsaved": [LOSS["unsaved"][0] | {"seconds": ""}]},
            *(20, {KIND: None}),
            id="the scheduler has not seen how long it took",
        ),
    ],
)
def test_what_a_target_lost(
    status: dict[str, Any], steps: int | None, seconds: dict[FlavorResource, float | None] | None
) -> None:
    target = TargetStatus.model_validate({"uid": "u"} | LOSS | status)
    assert (target.lost_steps, target.lost_seconds) == (steps, seconds)


def test_the_record_of_a_thousand_targets_fits_into_one_object() -> None:
    """With names of 63 characters and every field set; with 253 until all are asked."""
    record = cession()
    for length, times in ((63, TIMES), (253, ["requestedTime", "askedTime"])):
        full = thousand_targets(record, "n" * length, times)
        body = json.dumps(full.model_dump(exclude={"metadata"}))
        assert len(body) < ETCD_LIMIT, length


def thousand_targets(record: Cession, name: str, times: list[str]) -> Cession:
    names = {"namespace": name[:63], "job": name, "workload": name, "queue": name[:63]}
    uids = [f"{i:036}" for i in range(MAX_TARGETS)]
    old = record.spec.targets[0].model_dump()
    targets = [Target.model_validate(old | names | {"uid": uid}) for uid in uids]
    stamps = dict.fromkeys(times, TIME)
    kind = {"flavor": name, "resource": name, "seconds": "1234567890.1"}
    work = {"unsaved": [kind] if "releasedTime" in times else []}
    statuses = [
        TargetStatus.model_validate({"uid": uid, "stopped": True} | STEPS | stamps | work)
        for uid in uids
    ]
    return record.model_copy(
        update={
            "spec": record.spec.model_copy(update={"targets": targets}),
            "status": record.status.model_copy(update={"targets": statuses}),
        }
    )
