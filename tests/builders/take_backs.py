"""Take-backs as an API server has them: Cessions with their targets and stages."""

import time
from collections.abc import Iterable

from cede.api.objects import Json, rfc3339
from cede.api.preference_reasons import PreferenceReason


def cession(
    name: str,
    preemptor: str,
    *targets: tuple[str, int, int],
    age_s: float = 0.0,
    phase: str = "Completed",
    stages_s: Iterable[float] = (1, 3, 4, 5, 19),
    step: int = 4120,
    why: str = "",
    message: str = "",
    instead: str = "",
) -> Json:
    """`targets`: (namespace/job, from, to); `stages_s`: seconds from its start until it asked, the
    last ceded, all were released, the preemptor was admitted, and was ready; fewer while it is
    open. `instead`: namespace/job that could have shrunk in place of the first target."""
    created = time.time() - age_s
    asked, ceded, released, admitted, ready = (
        *(rfc3339(created + second) for second in stages_s),
        *[""] * (5 - len(list(stages_s))),
    )
    namespace, job_name = preemptor.split("/")
    spec: Json = {
        "preemptor": {
            "namespace": namespace,
            "workload": f"job-{job_name}",
            "uid": f"uid-{namespace}-{job_name}-workload",
            "job": job_name,
            "queue": namespace,
            "creationTime": rfc3339(created),
        },
        "reason": "ReclaimOwnQuota",
        "why": why,
        "targets": [_target(*target) for target in targets],
        "alternatives": [_alternative(targets[0], instead)] if instead else [],
    }
    statuses = [
        {
            "uid": entry["uid"],
            "askedTime": asked,
            "cededTime": ceded,
            "releasedTime": released,
            "step": step,
            "durableStep": step - 20,
        }
        for entry in spec["targets"]
    ]
    status = {
        "phase": phase,
        "targets": statuses,
        "releasedTime": released,
        "admittedTime": admitted,
        "readyTime": ready,
        "completionTime": ready or (rfc3339(created + 90) if phase == "Failed" else ""),
        "message": message,
    }
    metadata = {"name": name, "creationTimestamp": rfc3339(created)}
    return {"metadata": metadata, "spec": spec, "status": status}


def _target(job_key: str, from_size: int, to_size: int) -> Json:
    namespace, name = job_key.split("/")
    return {
        "namespace": namespace,
        "job": name,
        "uid": f"uid-{namespace}-{name}",
        "workload": f"job-{name}",
        "queue": namespace,
        "fromSize": from_size,
        "toSize": to_size,
        "how": "Shrink" if to_size else "Stop",
    }


def _alternative(target: tuple[str, int, int], instead: str) -> Json:
    spared, from_size, to_size = target
    namespace, name = instead.split("/")
    change = {"fromSize": from_size, "toSize": to_size, "how": "Shrink"}
    return {
        "spared": _target(spared, from_size, to_size)["uid"],
        "jobs": [{"namespace": namespace, "name": name, **change}],
        "costSeconds": "0",
        "plannedSeconds": "0",
        "reason": PreferenceReason.YOUNGEST_FIRST,
    }
