"""Whatever changes, a snapshot that was taken with a memory is as one that was taken without."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api.kueue import Job, Pod, Workload
from cede.api.objects import Key, OwnerReference
from scheduler.snapshot.observations import Observed
from scheduler.snapshot.snapshot import Memory, RawObjects, take
from tests.builders.kueue_objects import cluster_queue, job, local_queue, owner, workload
from tests.builders.scheduler import runtime_status

NAMESPACES = ("research", "vision")
UIDS = ("job-uid", "set-uid")
PASSES = 30


class World:
    """The caches of a small cluster in which anything may happen."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._version = 0
        self._caches: dict[str, dict[Key, Any]] = {"workloads": {}, "jobs": {}, "pods": {}}
        self._makers: dict[str, Callable[[str], Any]] = {
            "workloads": self._workload,
            "jobs": self._job,
            "pods": self._pod,
        }
        self._shown: dict[str, Any] = {}

    def change(self) -> None:
        """As caches do: at its place, at the end, a gap is closed, or all is listed again."""
        for kind, cache in self._caches.items():
            for _ in range(self._chance.randrange(3)):
                namespace = self._chance.choice(NAMESPACES)
                name = f"{kind}-{self._chance.randrange(5)}"
                if self._chance.random() < 0.3:
                    cache.pop((namespace, name), None)
                else:
                    cache[namespace, name] = self._versioned(kind, namespace, name)
            if self._chance.random() < 0.1:
                listed = {key: replace(cache[key]) for key in sorted(cache)}
                cache.clear()
                cache.update(listed)
        uids = [uid for uid in UIDS if self._chance.random() < 0.5]
        status = runtime_status(self._chance.randrange(1, 3))
        self._shown = {
            "statuses": dict.fromkeys(uids, status),
            "observations": {uid: Observed() for uid in uids if self._chance.random() < 0.5},
        }

    def objects(self) -> RawObjects:
        lists: dict[str, Any] = {kind: list(cache.values()) for kind, cache in self._caches.items()}
        queues = [local_queue(), replace(local_queue(), metadata=self._elsewhere())]
        cluster_queues = [cluster_queue("research"), cluster_queue("vision")]
        return RawObjects(
            **lists, **self._shown, local_queues=queues, cluster_queues=cluster_queues
        )

    @staticmethod
    def _elsewhere() -> Any:
        return replace(local_queue().metadata, namespace="vision")

    def _versioned(self, kind: str, namespace: str, name: str) -> Any:
        self._version += 1
        obj = self._makers[kind](name)
        metadata = replace(
            obj.metadata,
            namespace=namespace,
            name=name,
            uid=obj.metadata.uid if kind == "jobs" else f"{namespace}-{name}",
            resourceVersion=str(self._version),
        )
        return replace(obj, metadata=metadata)

    def _workload(self, name: str) -> Workload:
        replaced = self._chance.choice(["", "", "workloads-0", "workloads-1"])
        return workload(
            name,
            self._chance.randrange(1, 4),
            assigned=self._chance.choice([0, 2]),
            finished=self._chance.random() < 0.2,
            replaces=replaced if replaced != name else "",
            owners=[owner("Job", "gpt", self._chance.choice(UIDS))],
        )

    def _job(self, name: str) -> Job:
        """Of a name always the same uid. The last ones are made by a JobSet."""
        made = job(self._chance.randrange(1, 4))
        number = int(name.rsplit("-", maxsplit=1)[-1])
        uid = UIDS[0] if number == 0 else f"child-{number}"
        job_set = OwnerReference(kind="JobSet", uid=UIDS[1], controller=True)
        owners = (job_set,) if number > 2 else ()
        return replace(made, metadata=replace(made.metadata, uid=uid, ownerReferences=owners))

    def _pod(self, _: str) -> Pod:
        reference = owner("Job", "gpt", self._chance.choice([*UIDS, "child-3", "child-4"]))
        conditions = [{"type": "Ready", "status": self._chance.choice(["True", "False"])}]
        body = {
            "metadata": {"name": "p", "ownerReferences": [reference]},
            "spec": {"nodeName": self._chance.choice(["n1", "n2"])},
            "status": {"phase": "Running", "conditions": conditions},
        }
        return msgspec.convert(body, Pod)


@pytest.mark.parametrize("seed", range(40))
def test_a_snapshot_with_a_memory_is_as_one_from_scratch(seed: int) -> None:
    world = World(random.Random(seed))  # noqa: S311
    memory = Memory()
    for _ in range(PASSES):
        world.change()
        assert take(world.objects(), memory) == take(world.objects())


def test_what_did_not_change_stays_the_same_object() -> None:
    world = World(random.Random(0))  # noqa: S311
    memory = Memory()
    while not take(world.objects(), memory).admitted:
        world.change()
    before = take(world.objects(), memory).admitted
    again = take(world.objects(), memory).admitted
    assert all(old is new for old, new in zip(before, again, strict=True))
