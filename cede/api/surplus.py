"""PURE. The surplus of a JobSet or TrainJob: an elastic Job whose pods train with its own.

The base keeps its size, the smallest. The Job grows and cedes as any other; its pods count on from
those of the base, and their agents are those of the base's job.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Self

from cede.api import names, sizes
from cede.api.objects import Json

SUFFIX = "-surplus"
OF_BASE = ("CEDE_JOB_SET", "CEDE_SURPLUS")
"""Variables of a base that a surplus does not have. All others of ours the webhook replaces."""
# of a child Job, and of its pods: those of a JobSet, and those that Kubernetes sets
_FOREIGN_LABELS = ("jobset.sigs.k8s.io/", "batch.kubernetes.io/", "kueue.x-k8s.io/")
_OLD_LABELS = ("controller-uid", "job-name")
_COPIED = ("podFailurePolicy", "podReplacementPolicy", "backoffLimit", "backoffLimitPerIndex")


@dataclass(frozen=True, slots=True)
class Base:
    """What a surplus belongs to, from its annotation."""

    # of the base's Workload: the uid of the JobSet or TrainJob
    identity: str
    # the name of the Job whose pods train, and its uid: their agents sign with it
    job: str
    job_uid: str
    # pods
    size: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for a text that is none: users may write anything into annotations."""
        parts = text.split("/")
        if len(parts) != 4 or not all(parts):
            return None
        size = sizes.parse_one(parts[3])
        return cls(parts[0], parts[1], parts[2], size) if size else None

    def __str__(self) -> str:
        return f"{self.identity}/{self.job}/{self.job_uid}/{self.size}"


@dataclass(frozen=True, slots=True)
class Request:
    """What a surplus is made of."""

    # its JobSet's name
    name: str
    # apiVersion, kind, name and uid of the JobSet or TrainJob that ends with it
    owner: Json
    # of both together, ascending
    sizes: tuple[int, ...]
    # the Job of the base, as the API server has it
    job: Json
    queue: str
    priority_class: str
    grace: str = ""


def manifest(request: Request) -> Json:
    """The Job. Its owner reference names no controller: Kueue would not queue it."""
    job = request.job
    base_size = request.sizes[0]
    own_sizes = [size - base_size for size in request.sizes[1:]]
    base = Base(request.owner["uid"], job["metadata"]["name"], job["metadata"]["uid"], base_size)
    annotations = {
        names.SIZES: ",".join(map(str, own_sizes)),
        names.SURPLUS_OF: str(base),
    }
    if request.grace:
        annotations[names.GRACE] = request.grace
    spec = {name: deepcopy(job["spec"][name]) for name in _COPIED if name in job["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{request.name}{SUFFIX}",
            "namespace": job["metadata"]["namespace"],
            "labels": {
                names.QUEUE_NAME: request.queue,
                names.PRIORITY_CLASS: request.priority_class,
            },
            "annotations": annotations,
            "ownerReferences": [request.owner],
        },
        "spec": spec
        | {
            "completionMode": "Indexed",
            "parallelism": own_sizes[-1],
            "completions": own_sizes[-1],
            "template": _template(job),
        },
    }


def _template(job: Json) -> Json:
    template: Json = deepcopy(job["spec"]["template"])
    labels = template.get("metadata", {}).get("labels", {})
    template["metadata"] = {"labels": {name: labels[name] for name in labels if _is_own(name)}}
    for container in template["spec"]["containers"]:
        own = container.get("env", [])
        container["env"] = [item for item in own if item["name"] not in OF_BASE]
    return template


def _is_own(label: str) -> bool:
    # without ours, an elastic Job is refused while the webhook does not answer
    others = (*_OLD_LABELS, names.ELASTIC_POD)
    return not label.startswith(_FOREIGN_LABELS) and label not in others
