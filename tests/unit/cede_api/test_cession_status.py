"""The status of a Cession, as it is written."""

import json

from cede.api.cession import Cession, Target
from cede.api.cession_status import MAX_TARGETS, TargetStatus
from tests.builders.scheduler import cession

ETCD_LIMIT = 1_500_000
"""Bytes of one object that etcd accepts by default."""
TIME = "2026-01-01T00:00:00.000000Z"
TIMES = [name for name in TargetStatus.model_fields if name.endswith("Time")]


def test_a_target_is_written_without_what_has_not_happened() -> None:
    status = TargetStatus(uid="u", askedTime=TIME)
    assert status.model_dump() == {"uid": "u", "askedTime": TIME}
    assert TargetStatus.model_validate(status.model_dump()) == status


def test_the_record_of_a_thousand_targets_fits_into_one_object() -> None:
    """With names of 63 characters and every time set; with 253 until all are asked."""
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
    statuses = [
        TargetStatus.model_validate({"uid": uid, "stopped": True, "step": 123456} | stamps)
        for uid in uids
    ]
    return record.model_copy(
        update={
            "spec": record.spec.model_copy(update={"targets": targets}),
            "status": record.status.model_copy(update={"targets": statuses}),
        }
    )
