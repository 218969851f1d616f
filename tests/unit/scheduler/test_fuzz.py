"""Hostile Jobs, Workloads and pods: no pass fails, or takes long."""

import time
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api import names
from cede.api.kueue import Job, JobSpec, JobStatus, Pod, ReclaimablePod, Workload
from cede.api.objects import Meta, OwnerReference, rfc3339
from cede.api.servers import Deployment, ServerSpec
from scheduler.plan import plan
from scheduler.snapshot.snapshot import Memory, RawObjects, take
from tests.builders.hostile_values import TEXTS
from tests.builders.pictures import CLASSES, NOW, ClusterOf, JobOf

pytestmark = pytest.mark.slow

PASS_S = 1.0
"""Of a core. One takes 2 ms here."""
COUNTS = st.integers(0, 5) | st.sampled_from([4096, 4097, 10**6, 2**31 - 1])
NOTES = st.sampled_from(
    [
        *(
            "true",
            "stop",
            "2-4",
            "1-4096",
            "1",
            "4096",
            "99999999",
            "1/2/3/4",
            "a/b/c/9",
            "1s",
            "9" * 7,
        ),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59", rfc3339(NOW), rfc3339(NOW + 1e9)),
        *("[" * 8000, '{"request": "now", "state": "Asked", "time": ""}', "null", "x" * 200_000),
    ]
)
READ = [
    *(names.SIZES, names.ELASTIC_JOB, names.DESIRED_SIZE, names.GRACE, names.SHRUNK_AT),
    *(names.SURPLUS_OF, names.SAVE_REQUESTED, names.SAVE_ANSWER, names.AFTER_PREEMPTION),
    *(names.SLICE_REPLACEMENT_FOR, names.ADMISSION_GATED_BY, names.GROUP_INDEX, names.REQUEUED_AT),
    *(names.POD_GROUP, names.POD_WORKLOAD, names.POD_SLICE, names.STOPPED_FOR, names.POD_INDEX),
    *(names.POD_JOB_UID, names.POD_TEMPLATE_HASH, names.SERVER, names.QUEUE_NAME),
]
MARKS = st.dictionaries(st.sampled_from(READ), NOTES | TEXTS, max_size=6)
BASE = ClusterOf([JobOf("research", "gpt", 4, ["n1"] * 4, sizes="1-4")]).objects()
JOBS = st.builds(
    JobOf,
    team=st.sampled_from(["vision", "research"]),
    name=st.sampled_from(["a", "b", "c", "d"]) | TEXTS,
    pods=st.integers(1, 6),
    nodes=st.sampled_from([(), ("n1",), ("n1", "n2")]),
    sizes=st.sampled_from(["", "2-6", "1-4096"]),
    priority_class=st.sampled_from(list(CLASSES)),
)


def marked(metadata: Meta, marks: Mapping[str, str]) -> Meta:
    annotations = {**metadata.annotations, **marks}
    return replace(metadata, labels={**metadata.labels, **marks}, annotations=annotations)


@st.composite
def hostile_jobs(draw: st.DrawFn, origin: JobOf) -> Job:
    job = origin.job()
    if draw(st.booleans()):
        mode = draw(st.sampled_from(["Indexed", "NonIndexed"]))
        spec = JobSpec(draw(COUNTS), draw(st.none() | COUNTS), draw(st.booleans()), mode)
        status = JobStatus((), draw(COUNTS), draw(COUNTS), draw(COUNTS))
        job = replace(job, spec=spec, status=status)
    return replace(job, metadata=marked(job.metadata, draw(MARKS)))


@st.composite
def hostile_workloads(draw: st.DrawFn, origin: JobOf) -> Workload:
    workload = origin.workload()
    (pod_set,) = workload.spec.podSets
    template = replace(pod_set.template, metadata=Meta(annotations=draw(MARKS)))
    if draw(st.booleans()):
        # pods that request nothing fit without end
        template = replace(template, spec=replace(template.spec, containers=()))
    pod_set = replace(pod_set, count=draw(COUNTS), template=template)
    spec = replace(workload.spec, podSets=(pod_set,), active=draw(st.booleans()))
    status = replace(workload.status, reclaimablePods=(ReclaimablePod("main", draw(COUNTS)),))
    if admission := status.admission:
        (assigned,) = admission.podSetAssignments
        usage = draw(st.sampled_from([{}, assigned.resourceUsage]))
        assigned = replace(assigned, count=draw(COUNTS), resourceUsage=usage)
        status = replace(status, admission=replace(admission, podSetAssignments=(assigned,)))
    metadata = marked(workload.metadata, draw(MARKS))
    return replace(workload, metadata=metadata, spec=spec, status=status)


@st.composite
def hostile_pods(draw: st.DrawFn, origin: JobOf) -> list[Pod]:
    pods = origin.pods_on_nodes()
    return [replace(pod, metadata=marked(pod.metadata, draw(MARKS))) for pod in pods]


@st.composite
def hostile_servers(draw: st.DrawFn) -> tuple[Deployment, list[Workload], list[Pod]]:
    """With replicas that have quota, and more that it may have ceded."""
    name = draw(st.just("chat") | TEXTS)
    replicas = [draw(server_replicas(name, index)) for index in range(draw(st.integers(0, 3)))]
    metadata = Meta(
        name=name,
        namespace="vision",
        uid=draw(TEXTS),
        labels={names.SERVER: names.CEDED},
        annotations={names.SIZES: "1-4096", names.DESIRED_SIZE: "4096"},
    )
    spec = ServerSpec(replicas=draw(st.just(len(replicas)) | COUNTS))
    server = Deployment(metadata=marked(metadata, draw(MARKS)), spec=spec)
    return server, [workload for workload, _ in replicas], [pod for _, pod in replicas]


@st.composite
def server_replicas(draw: st.DrawFn, server: str, index: int) -> tuple[Workload, Pod]:
    origin = JobOf("vision", f"{server}-{index}", 1, ["n2"])
    [pod] = origin.pods_on_nodes()
    replica_set = OwnerReference("ReplicaSet", f"{server}-7d9", "rs", controller=True)
    metadata = Meta(
        name=origin.name,
        namespace="vision",
        uid=origin.uid,
        labels={names.POD_TEMPLATE_HASH: "7d9"},
        ownerReferences=(replica_set,),
    )
    owner = OwnerReference("Pod", origin.name, origin.uid, controller=True)
    workload = draw(st.just(origin.workload()) | hostile_workloads(origin))
    owned = replace(workload.metadata, ownerReferences=(owner,))
    return replace(workload, metadata=owned), replace(pod, metadata=metadata)


@st.composite
def hostile_clusters(draw: st.DrawFn) -> RawObjects:
    jobs = draw(st.lists(JOBS, max_size=4, unique_by=lambda origin: origin.uid))
    server, replicas, pods_of_server = draw(hostile_servers())
    workloads = [draw(hostile_workloads(origin)) for origin in jobs]
    pods = [pod for origin in jobs for pod in draw(hostile_pods(origin))]
    return replace(
        BASE,
        jobs=[*BASE.jobs, *(draw(hostile_jobs(origin)) for origin in jobs)],
        workloads=[*BASE.workloads, *workloads, *replicas],
        pods=[*BASE.pods, *pods, *pods_of_server],
        deployments=[server],
        statuses={
            **BASE.statuses,
            **{origin.uid: origin.status() for origin in jobs if origin.nodes},
        },
    )


@settings(deadline=None, max_examples=100)
@given(st.lists(hostile_clusters(), min_size=1, max_size=2))
def test_no_hostile_object_ends_or_slows_a_pass(clusters: list[RawObjects]) -> None:
    """One after the other, as a scheduler reads them."""
    memory = Memory()
    (policy,) = BASE.policies
    for objects in clusters:
        began = time.thread_time()
        decision = plan(take(objects, memory), policy.spec, NOW)
        assert decision.faults == ()
        assert time.thread_time() - began < PASS_S
