"""What the scheduler observed, written to JSON and read back."""

import pytest

from cede.api.kueue import Workload
from cede.api.objects import Meta
from cede.api.policy import PolicySpec
from scheduler import snapshot_dump
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import RawObjects
from tests.builders.scheduler import KEY, NOW, cession, runtime_status


def test_a_dump_reads_back_as_what_was_written() -> None:
    policy = PolicySpec(mode="Observe")
    objects = RawObjects(
        workloads=(Workload(Meta("w", "ns", "u")),),
        cessions=(cession("Asked"),),
        statuses={"u": runtime_status(parked=(4, 5))},
        observations={"u": Observed(since=NOW, durable_step=3)},
        believed=frozenset({("vision", KEY)}),
        overdue=frozenset({"uid-claim"}),
        led_since=NOW - 5,
    )
    text = snapshot_dump.write(objects, policy, NOW)
    objects_read, policy_read, now = snapshot_dump.read(text)
    assert (list(objects_read.workloads), list(objects_read.cessions), objects_read.statuses) == (
        list(objects.workloads),
        list(objects.cessions),
        objects.statuses,
    )
    assert objects_read.observations == objects.observations
    assert objects_read.believed == objects.believed
    assert (objects_read.overdue, objects_read.led_since) == (objects.overdue, NOW - 5)
    assert (policy_read, now) == (policy, NOW)


def test_what_is_not_a_dump_is_refused() -> None:
    with pytest.raises(ValueError, match="not a dump of this version"):
        snapshot_dump.read("{}")
