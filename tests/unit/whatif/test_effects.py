"""What Kubernetes and Kueue do after an action of each kind, seen in the answer."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import Pod, Workload
from cede.api.objects import Json, Meta, is_true
from cede.api.servers import Deployment, LeaderWorkerSet
from cede.api.surplus import Base
from scheduler.snapshot.snapshot import Memory, RawObjects
from tests.builders.pictures import (
    NOW,
    ClusterOf,
    JobOf,
    allocation,
    manifest,
    node,
    pod_spec,
    policy,
)
from whatif import placing
from whatif.answer import Answer
from whatif.placing import make_pods
from whatif.questions import Picture, ask_drain, ask_submit
from whatif.world import World

ON_BOTH = ["n1"] * 4 + ["n2"] * 4
GPT = JobOf("research", "gpt", 8, ON_BOTH, sizes="2-8")


def submit(objects: RawObjects, pods: int = 4) -> Answer:
    return ask_submit(Picture(objects, NOW), manifest("inference", pods), "vision")


def effects(answer: Answer) -> list[tuple[str, str, int, int]]:
    return [(c.job, str(c.effect), c.from_size, c.to_size) for c in answer.changes]


# --- servers --------------------------------------------------------------------------------------
def converted(cls: type[Any], wire: Json) -> Any:
    return msgspec.convert(wire, cls, strict=False)


def with_server(objects: RawObjects, nodes: list[str], sizes: str = "2-4") -> RawObjects:
    """The server `chat` of research has a replica of one accelerator on each of these nodes."""
    workloads, pods = list[Workload](), list[Pod]()
    for index, node_name in enumerate(nodes):
        name = f"chat-{index}"
        job = JobOf("research", name, 1, [node_name])
        (pod,) = job.pods_on_nodes()
        owner = {"kind": "ReplicaSet", "name": "chat-7d9", "uid": "rs", "controller": True}
        metadata = {
            "name": name,
            "namespace": "research",
            "uid": f"uid-{name}",
            "labels": {names.POD_TEMPLATE_HASH: "7d9"},
            "ownerReferences": [owner],
        }
        pods.append(replace(pod, metadata=converted(Meta, metadata)))
        of_pod = [{"kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}]
        workload = job.workload()
        owned = converted(Meta, {"ownerReferences": of_pod}).ownerReferences
        workloads.append(
            replace(workload, metadata=replace(workload.metadata, ownerReferences=owned))
        )
    metadata = {
        "name": "chat",
        "namespace": "research",
        "uid": "uid-chat",
        "labels": {names.SERVER: names.WHOLE},
        "annotations": {names.SIZES: sizes},
    }
    wire = {"metadata": metadata, "spec": {"replicas": len(nodes)}}
    return replace(
        objects,
        workloads=[*objects.workloads, *workloads],
        pods=[*objects.pods, *pods],
        deployments=[converted(Deployment, wire)],
    )


def test_pods_of_a_server_drain_one_by_one() -> None:
    rigid = JobOf("research", "rigid", 4, ["n1"] * 4)
    objects = with_server(ClusterOf([rigid]).objects(), ["n2"] * 4)
    answer = submit(objects, pods=2)
    assert effects(answer) == [
        ("chat-3", "Drains", 1, 0),
        ("chat-2", "Drains", 1, 0),
        ("inference", "Admitted", 0, 2),
    ]


def test_a_server_drains_when_its_team_loses_quota() -> None:
    """Two of the three nodes go: more is in use than there is."""
    teams = (allocation("research", 4), allocation("vision", 8))
    cluster = ClusterOf(nodes=(node("n1"), node("n2"), node("n3")), allocations=teams)
    picture = Picture(with_server(cluster.objects(), ["n1"] * 4), NOW)
    answer = ask_drain(picture, ["n2", "n3"])
    assert [change for change in effects(answer) if change[1] != "Drains"] == []
    assert len(answer.changes) <= 2, "two replicas stay"


def with_groups(objects: RawObjects, nodes: list[str]) -> RawObjects:
    """The same server as a LeaderWorkerSet: a group of two such pods on each of these nodes."""
    workloads, pods = list[Workload](), list[Pod]()
    owner = {"kind": "LeaderWorkerSet", "name": "chat", "uid": "uid-chat"}
    for index, node_name in enumerate(nodes):
        job = JobOf("research", f"chat-{index}", 2, [node_name] * 2)
        workload = job.workload()
        metadata = replace(
            workload.metadata,
            annotations={names.GROUP_INDEX: str(index)},
            ownerReferences=converted(Meta, {"ownerReferences": [owner]}).ownerReferences,
        )
        workloads.append(replace(workload, metadata=metadata))
        labels = {names.POD_GROUP: metadata.name}
        for pod in job.pods_on_nodes():
            own = replace(pod.metadata, labels=labels, ownerReferences=())
            pods.append(replace(pod, metadata=own))
    notes = {names.SIZES: "1-2"}
    labels = {names.SERVER: names.WHOLE}
    key = {"name": "chat", "namespace": "research", "uid": "uid-chat"}
    wire = {"metadata": key | {"labels": labels, "annotations": notes}}
    made = converted(LeaderWorkerSet, wire | {"spec": {"replicas": len(nodes)}})
    return replace(
        objects,
        workloads=[*objects.workloads, *workloads],
        pods=[*objects.pods, *pods],
        leader_worker_sets=[made],
    )


def test_the_last_group_of_a_server_drains() -> None:
    rigid = JobOf("research", "rigid", 4, ["n1"] * 4)
    answer = submit(with_groups(ClusterOf([rigid]).objects(), ["n2"] * 2), pods=2)
    assert effects(answer) == [("chat", "Drains", 2, 0), ("inference", "Admitted", 0, 2)]


# --- surpluses ------------------------------------------------------------------------------------
def test_a_surplus_stops_when_its_base_does_not_run() -> None:
    base = JobOf("research", "base", 9)
    extra = JobOf("research", "extra", 4, ["n2"] * 4, sizes="1-4")
    objects = ClusterOf([base, extra]).objects()
    note = {names.SURPLUS_OF: str(Base(base.uid, "base", base.uid, 9))}
    jobs = [
        replace(job, metadata=replace(job.metadata, annotations=job.metadata.annotations | note))
        if job.metadata.name == "extra"
        else job
        for job in objects.jobs
    ]
    answer = submit(replace(objects, jobs=jobs), pods=6)
    anyway = [(c.job, str(c.effect), c.from_size, c.to_size, c.why) for c in answer.anyway]
    why = "the job that it is the surplus of does not run"
    assert anyway == [("extra", "Stops", 4, 0, why)]
    assert effects(answer) == [("inference", "Admitted", 0, 6)]


# --- take-backs that are under way ----------------------------------------------------------------
def test_an_open_take_back_is_completed_first() -> None:
    """Its preemptor has what was promised to it; the next job takes what is left."""
    waiting = JobOf("vision", "waits", 2)
    objects = ClusterOf([GPT, waiting]).objects()
    answer = submit(replace(objects, cessions=[open_cession(waiting)]), pods=2)
    anyway = [(c.job, str(c.effect), c.from_size, c.to_size) for c in answer.anyway]
    assert anyway == [("gpt", "Shrinks", 8, 6), ("waits", "Admitted", 0, 2)]
    assert effects(answer) == [("gpt", "Shrinks", 6, 4), ("inference", "Admitted", 0, 2)]


def open_cession(waiting: JobOf) -> Cession:
    preemptor = {
        "namespace": "vision",
        "workload": "job-waits",
        "uid": f"{waiting.uid}-w",
        "job": "waits",
        "queue": "vision",
        "creationTime": "2027-01-15T07:00:00Z",
    }
    target = {
        "namespace": "research",
        "job": "gpt",
        "uid": GPT.uid,
        "workload": "job-gpt",
        "queue": "research",
        "fromSize": 8,
        "toSize": 6,
        "how": "Shrink",
    }
    need = {"flavor": "a100", "resource": names.GPU, "amount": "2"}
    spec = {
        "preemptor": preemptor,
        "reason": "ReclaimOwnQuota",
        "need": [need],
        "targets": [target],
        "why": "because",
    }
    metadata = {"name": "waits-1", "creationTimestamp": "2027-01-15T07:59:00Z"}
    return Cession.model_validate(
        {"metadata": metadata, "spec": spec, "status": {"phase": "Asked"}}
    )


# --- jobs that stop -------------------------------------------------------------------------------
def test_a_job_stops_only_if_it_cannot_shrink_by_enough() -> None:
    elastic = JobOf("research", "elastic", 8, ON_BOTH, sizes="3-8")
    answer = submit(ClusterOf([elastic]).objects(), pods=4)
    assert effects(answer)[:2] == [("elastic", "Shrinks", 8, 4), ("inference", "Admitted", 0, 4)]
    large = JobOf("research", "large", 8, ON_BOTH, sizes="5,8")
    answer = submit(ClusterOf([large]).objects(), pods=4)
    assert effects(answer) == [("large", "Stops", 8, 0), ("inference", "Admitted", 0, 4)]


# --- nodes ----------------------------------------------------------------------------------------
def test_what_daemons_request_of_a_node_is_in_no_quota() -> None:
    """Their pods stay on a node that is drained."""
    owner = {"kind": "DaemonSet", "name": "logs", "uid": "ds", "controller": True}
    metadata = {"name": "logs-1", "namespace": "kube-system", "ownerReferences": [owner]}
    wire = {
        "metadata": metadata,
        "spec": pod_spec() | {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    objects = ClusterOf().objects()
    picture = Picture(replace(objects, pods=[converted(Pod, wire)]), NOW)
    answer = ask_drain(picture, ["n1"])
    assert (answer.changes, answer.notes) == ((), ())
    assert picture.quota.plan.capacities["a100"].healthy[names.GPU] < 8


def test_pods_that_request_nothing_are_made_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placing, "MAX_PODS", 20)
    endless = JobOf("research", "endless", 2_000_000_000, ["n1"] * 4)
    objects = ClusterOf([endless]).objects()
    world = World(objects, policy().spec, NOW, Memory())
    assert make_pods(world, endless.workload()) == 2_000_000_000 - on_nodes(world)
    assert world.count_pods() == 20
    conditions = world.workloads[endless.workload().metadata.key].status.conditions
    assert not is_true(conditions, names.PODS_READY)


def test_a_workload_without_a_pod_beyond_the_number_is_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(placing, "MAX_PODS", 8)
    whole = JobOf("research", "whole", 8, ["n1"] * 4)
    world = World(ClusterOf([whole]).objects(), policy().spec, NOW, Memory())
    assert make_pods(world, whole.workload()) == 0
    conditions = world.workloads[whole.workload().metadata.key].status.conditions
    assert is_true(conditions, names.PODS_READY)


def on_nodes(world: World) -> int:
    return sum(bool(pod.spec.nodeName) for pod in world.pods)
