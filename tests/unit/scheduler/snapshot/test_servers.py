"""Which pods of a server may end while it serves on, and which server is left alone."""

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.api import names
from cede.api.kueue import Pod, Workload
from cede.api.objects import OwnerReference
from cede.api.servers import Deployment, LeaderWorkerSet
from scheduler.snapshot.job_pods import read_job_pods
from scheduler.snapshot.servers import read_servers, with_drains
from scheduler.snapshot.snapshot import RawObjects, take
from scheduler.snapshot.workloads import AdmittedWorkload
from tests.builders.kueue_objects import cluster_queue, local_queue, owner, workload
from tests.builders.scheduler import KEY, admitted
from tests.builders.servers import (
    CHAT,
    deployment,
    group,
    groups,
    leader_worker_set,
    pod,
    pods,
)

OTHER = admitted()


def draining(chat: Deployment, running: Sequence[AdmittedWorkload]) -> list[str]:
    jobs = with_drains([*running, OTHER], read_servers([chat], [], running))
    assert OTHER in jobs
    return [job.name for job in jobs if job.drains]


@pytest.mark.parametrize(
    ("chat", "running", "expected"),
    [
        pytest.param(deployment(), pods(4), ["chat-2", "chat-3"], id="the youngest"),
        pytest.param(deployment(2), pods(2), [], id="none at its smallest size"),
        pytest.param(deployment(4), pods(3), ["chat-2"], id="one that waits is no pod"),
        pytest.param(deployment(sizes="4"), pods(4), [], id="one size only"),
        pytest.param(deployment(sizes="2-"), pods(4), [], id="sizes that cannot be read"),
        pytest.param(deployment(3), pods(4), [], id="one is about to be deleted"),
        pytest.param(deployment(0), [], [], id="none at all"),
        pytest.param(
            deployment(), [*pods(3), pod(3, ready=False)], [], id="that one would be deleted first"
        ),
        pytest.param(deployment(), [*pods(3), pod(3, replica_set="chat-2")], [], id="it rolls out"),
        pytest.param(
            deployment(3), [*pods(3), pod(3, is_ending=True)], ["chat-2"], id="one has ended soon"
        ),
        pytest.param(
            deployment(), [*pods(3), pod(3, active=False)], ["chat-2"], id="one is stopped"
        ),
        pytest.param(
            deployment(), [*pods(2), pod(2, deployment="mail")], [], id="a pod of another server"
        ),
    ],
)
def test_the_pods_beyond_the_smallest_size_drain(
    chat: Deployment, running: list[AdmittedWorkload], expected: list[str]
) -> None:
    assert draining(chat, running) == expected


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 5))
def test_never_below_the_smallest_size(replicas: int, running: int, smallest: int) -> None:
    """Whoever of them ends, as many are left."""
    gone = draining(deployment(replicas, f"{smallest}-6"), pods(running))
    assert running - len(gone) >= min(smallest, running)


def test_a_server_that_is_being_deleted_is_none() -> None:
    chat = deployment()
    metadata = replace(chat.metadata, deletionTimestamp="2026-01-01T00:00:00Z")
    assert read_servers([replace(chat, metadata=metadata)], [], pods(4)) == ()


def test_what_it_ceded_is_in_its_notes() -> None:
    [whole] = read_servers([deployment(3)], [], [])
    assert (whole.key, whole.desired_size, whole.is_ceded, whole.grace_s) == (CHAT, 3, False, 20.0)
    [ceded] = read_servers([deployment(2, desired=4, shrunk_at="2026-01-01T00:00:00Z")], [], [])
    assert (ceded.replicas, ceded.desired_size, ceded.is_ceded) == (2, 4, True)
    assert ceded.shrunk_at > 0


# --- groups of a LeaderWorkerSet ------------------------------------------------------------------
@pytest.mark.parametrize(
    ("chat", "running", "expected"),
    [
        pytest.param(leader_worker_set(), groups(4), ["chat-2", "chat-3"], id="the last"),
        pytest.param(leader_worker_set(2), groups(2), [], id="none at its smallest size"),
        pytest.param(leader_worker_set(), groups(3), ["chat-2"], id="the last has no quota"),
        pytest.param(
            leader_worker_set(), [*groups(2), group(3)], [], id="another one has no quota"
        ),
        pytest.param(
            leader_worker_set(), [*groups(3), group(3, ready=1)], [], id="a pod of it is not ready"
        ),
        pytest.param(leader_worker_set(3), groups(4), [], id="one is about to be deleted"),
        pytest.param(
            leader_worker_set(), [*groups(3), group(3, active=False)], ["chat-2"], id="it stopped"
        ),
        pytest.param(leader_worker_set(), pods(4), [], id="pods of a Deployment of its name"),
    ],
)
def test_the_groups_beyond_the_smallest_size_drain(
    chat: LeaderWorkerSet, running: list[AdmittedWorkload], expected: list[str]
) -> None:
    jobs = with_drains(running, read_servers([], [chat], running))
    draining = [job for job in jobs if job.drains]
    assert [job.name for job in draining] == expected
    assert {job.allowed_sizes for job in draining} <= {(0, 2)}, "all pods of a group"


def test_groups_that_began_together_give_the_last_one_first() -> None:
    chat = [leader_worker_set(sizes="1-4")]
    jobs = with_drains(groups(4), read_servers([], chat, groups(4)))
    youngest_first = sorted((job for job in jobs if job.drains), key=lambda job: -job.started)
    assert [job.group_index for job in youngest_first] == [3, 2, 1]


def test_the_snapshot_finds_the_groups_of_a_leader_worker_set() -> None:
    """By the Workload of each group, which Kueue gives its index, and the pods, which name it."""
    current = take(
        RawObjects(
            workloads=[group_workload(index) for index in range(2)],
            pods=[member(index, number) for index in range(2) for number in range(2)],
            leader_worker_sets=[leader_worker_set(2, "1-2")],
            deployments=[deployment()],
            local_queues=[local_queue()],
            cluster_queues=[cluster_queue("research"), cluster_queue("vision")],
        )
    )
    _, chat = current.servers
    assert [(group.group_index, group.ready_pods) for group in chat.pods] == [(0, 2), (1, 2)]
    assert [job.key[1] for job in current.admitted if job.drains] == ["chat-1"]


def group_workload(index: int) -> Workload:
    owners = [owner("LeaderWorkerSet", "chat", "u", controls=False)]
    made = workload(f"chat-{index}", 2, assigned=2, owners=owners)
    notes = {names.GROUP_INDEX: str(index)}
    return replace(made, metadata=replace(made.metadata, annotations=notes))


def member(index: int, number: int) -> Pod:
    made = running_pod(f"chat-{index}-{number}", f"u-{index}-{number}")
    owners = msgspec.convert(
        [{"kind": "StatefulSet", "name": "chat", "uid": "s", "controller": True}],
        tuple[OwnerReference, ...],
    )
    labels = {names.POD_GROUP: f"chat-{index}"}
    return replace(made, metadata=replace(made.metadata, labels=labels, ownerReferences=owners))


# --- whose a pod is -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "maker", "hash_", "expected"),
    [
        ("ReplicaSet", "chat-7d9", "7d9", ("chat-7d9", "chat")),
        ("ReplicaSet", "chat-7d9", "", ("", "")),
        ("ReplicaSet", "chat-7d9", "8ab", ("", "")),
        ("StatefulSet", "chat-7d9", "7d9", ("", "")),
    ],
)
def test_the_maker_of_a_pod_is_known_by_its_owner_and_its_hash(
    kind: str, maker: str, hash_: str, expected: tuple[str, str]
) -> None:
    owners = [{"kind": kind, "name": maker, "uid": "u", "controller": True}]
    labels = {names.POD_TEMPLATE_HASH: hash_} if hash_ else {}
    metadata = {"name": "p", "labels": labels, "ownerReferences": owners}
    made = msgspec.convert({"metadata": metadata, "status": {"phase": "Running"}}, Pod)
    shown = read_job_pods([made])
    assert (shown.replica_set, shown.deployment) == expected


def test_the_snapshot_finds_the_pods_of_a_server() -> None:
    """By the Workload of each pod, its pod, and the Deployment."""
    indexes = range(3)
    current = take(
        RawObjects(
            workloads=[
                workload(
                    f"pod-chat-{i}", 1, assigned=1, owners=[owner("Pod", f"chat-{i}", f"u{i}")]
                )
                for i in indexes
            ],
            pods=[running_pod(f"chat-{i}", f"u{i}") for i in indexes],
            deployments=[deployment(3)],
            local_queues=[local_queue()],
            cluster_queues=[cluster_queue("research"), cluster_queue("vision")],
        )
    )
    [chat] = current.servers
    assert [(pod.job, pod.ready_pods) for pod in chat.pods] == [
        (("research", f"chat-{i}"), 1) for i in indexes
    ]
    assert [job.job[1] for job in current.admitted if job.drains] == ["chat-2"]
    assert current.quota.queues["research"].usage[KEY] == 3


def running_pod(name: str, uid: str) -> Pod:
    maker = {"kind": "ReplicaSet", "name": "chat-7d9", "uid": "rs", "controller": True}
    metadata = {
        "name": name,
        "namespace": "research",
        "uid": uid,
        "labels": {names.POD_TEMPLATE_HASH: "7d9"},
        "ownerReferences": [maker],
    }
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status}, Pod
    )
