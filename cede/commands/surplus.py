"""`cede surplus`: more pods for a JobSet or TrainJob, in an elastic Job of their own."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cede.api import names, sizes
from cede.api.kueue import Workload
from cede.api.objects import JOB_SETS, JOBS, PRIORITY_CLASSES, WORKLOADS, Json, Key, Kind, Meta
from cede.api.surplus import Request, manifest
from cede.api.workload_identity import controller
from cede.commands.command import DONE, NAMESPACE, BadInput, CommandFailed, Options
from cede.commands.connection import connected, namespace_of
from cede.commands.output import show
from cede.commands.priority import PriorityClass
from cede.kube.errors import AlreadyExists, NotFound

if TYPE_CHECKING:
    from cede.kube.client import Client

BASE = Annotated[str, typer.Argument(metavar="NAME", help="of the JobSet or TrainJob")]
PRIORITY = Annotated[
    str | None,
    typer.Option(
        "--priority",
        metavar="CLASS",
        help="of the surplus, below that of the base (default: the next one below)",
    ),
]
GROUPS = {"TrainJob": "trainer.kubeflow.org/v1alpha1", "JobSet": JOB_SETS.api_version}
"""The apiVersion of each kind that may own a Workload with a JobSet."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An object with all of its spec."""

    metadata: Meta
    spec: dict[str, Any] = field(default_factory=dict)


async def surplus(
    chosen: Options, name: BASE, priority: PRIORITY = None, namespace: NAMESPACE = None
) -> int:
    """Give a JobSet or TrainJob that runs the sizes above its smallest.

    Creates the elastic Job NAME-surplus from the pods of the base, in its queue and with a lower
    priority class. It grows and cedes as any elastic job; the base keeps its size. It waits while
    the base does not run, and is deleted with it. The base has the annotation cede.dev/sizes.
    """
    key = (namespace_of(chosen, namespace), name)
    async with connected(chosen) as client:
        request = await _read(client, key, priority)
        job = manifest(request)
        try:
            job = await client.create(JOBS, job, namespace=key[0])
        except AlreadyExists as error:
            raise CommandFailed(
                f"there is a Job {job['metadata']['name']} in namespace {key[0]} already: delete "
                f"it first"
            ) from error
    made = f"job/{job['metadata']['name']}"
    show(chosen, job, [f"{made} created in {key[0]}"], [made])
    return DONE


async def _read(client: "Client", key: Key, priority: str | None) -> Request:
    job_set = await _get(client, JOB_SETS, key)
    allowed = _sizes(job_set)
    [replicated] = job_set.spec["replicatedJobs"]
    job = await _get(client, JOBS, (key[0], f"{key[1]}-{replicated['name']}-0"))
    _check_pods(job)
    workloads, _ = await client.list(WORKLOADS, Workload, namespace=key[0])
    workload, owner = _workload_of(job_set, workloads)
    classes, _ = await client.list(PRIORITY_CLASSES, PriorityClass)
    return Request(
        name=key[1],
        owner=owner,
        sizes=allowed,
        job=_as_json(job),
        queue=workload.spec.queueName,
        priority_class=_lower_class(workload.spec.priority, classes, priority),
        grace=job_set.metadata.annotations.get(names.GRACE, ""),
    )


def _check_pods(job: Whole) -> None:
    """Raises BadInput for pods that could not train together with others."""
    labels = job.spec["template"].get("metadata", {}).get("labels", {})
    if labels.get(names.ELASTIC_POD) != "true":
        raise BadInput(
            f"the pods of {job.metadata.name} do not start the runtime of Cede: use the "
            f"TrainingRuntime cede-torch, or label them {names.ELASTIC_POD}"
        )


async def _get(client: "Client", kind: Kind, key: Key) -> Whole:
    try:
        return await client.get(kind, Whole, key)
    except NotFound as error:
        raise CommandFailed(
            f"there is no {kind.kind} {key[1]} in namespace {key[0]}: a surplus is made for a "
            f"JobSet or TrainJob that runs"
        ) from error


def _as_json(job: Whole) -> Json:
    meta = {"name": job.metadata.name, "namespace": job.metadata.namespace, "uid": job.metadata.uid}
    return {"metadata": meta, "spec": job.spec}


def _sizes(job_set: Whole) -> tuple[int, ...]:
    """At least two. Raises BadInput."""
    text = job_set.metadata.annotations.get(names.SIZES, "")
    try:
        allowed = sizes.parse(text)
    except ValueError:
        allowed = ()
    if len(allowed) < 2:
        raise BadInput(
            f"{job_set.metadata.name} has no sizes to grow to: its annotation {names.SIZES} is "
            f"{text!r}, create it again with sizes such as 2-8"
        )
    return allowed


def _workload_of(job_set: Whole, workloads: Iterable[Workload]) -> tuple[Workload, Json]:
    """Of the JobSet or of the TrainJob that made it; and which of both it is."""
    owners = [owner for owner in job_set.metadata.ownerReferences if owner.controller]
    uids = {job_set.metadata.uid, *(owner.uid for owner in owners)}
    for workload in workloads:
        owner = controller(workload)
        if owner and owner.uid in uids and workload.status.admission:
            kind = owner.kind
            reference = {"apiVersion": GROUPS[kind], "kind": kind}
            return workload, reference | {"name": owner.name, "uid": owner.uid}
    raise CommandFailed(f"{job_set.metadata.name} does not run: see `cede jobs`")


def _lower_class(base: int, classes: Iterable[PriorityClass], chosen: str | None) -> str:
    lower = [item for item in classes if item.value < base]
    names_of_lower = {item.metadata.name for item in lower}
    if chosen and chosen not in names_of_lower:
        raise BadInput(f"--priority: {chosen} is not below the class of the base")
    if not lower:
        raise BadInput("the base has the lowest priority class: a surplus needs a lower one")
    highest = max(lower, key=lambda item: (item.value, item.metadata.name))
    return chosen or highest.metadata.name
