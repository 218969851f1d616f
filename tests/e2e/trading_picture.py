"""What the API server knows of teams that trade, at one moment, and what it means."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cede.api import names
from cede.api.cession_pause import pause_s
from cede.api.objects import Json, condition, unix
from cede.api.reasons import CessionPhase, SchedulerEvent
from scheduler.cession.cession_lifecycle import Occurrence

# the fixture of tests/conftest.py
Cluster = Any
SET_ASIDE_S = 10
"""A job that waits is set inactive for another. Kueue may be about to admit it, and evicts it when
it sees the change, so long afterwards at most."""
GONE = (Occurrence.PREEMPTOR_DELETED.sentence, Occurrence.PREEMPTOR_DEACTIVATED.sentence)
NOT_READY = re.compile(r"\d of its \d+ pods (is|are) ready\. Of the others: ")
EXPLANATIONS = (
    "Admitted since the plan: ",
    "Admitted since the release: ",
    "Given up, because ",
    "Why: ",
)
"""Who has the capacity that the preemptor did not get, or why it would not have run: see `_details`
in scheduler/cession/advance.py."""


@dataclass(frozen=True)
class Picture:
    # in Unix seconds
    now: float
    cessions: tuple[Json, ...] = ()
    queues: tuple[Json, ...] = ()
    workloads: tuple[Json, ...] = ()


def look(cluster: Cluster) -> Picture:
    """Raises AssertionError while the API server does not answer."""
    kinds = "cessions,clusterqueues,workloads.kueue.x-k8s.io"
    of_kind = dict[str, list[Json]]()
    for item in cluster.kubectl_json("get", kinds, "-A")["items"]:
        of_kind.setdefault(item["kind"], []).append(item)
    shown = (tuple(of_kind.get(kind, ())) for kind in ("Cession", "ClusterQueue", "Workload"))
    return Picture(time.time(), *shown)


# --- Cessions -------------------------------------------------------------------------------------
def is_ended(cession: Json) -> bool:
    return bool(cession.get("status", {}).get("completionTime"))


def open_cessions(picture: Picture) -> list[str]:
    return [name_of(c) for c in picture.cessions if not is_ended(c)]


def name_of(cession: Json) -> str:
    return str(cession["metadata"]["name"])


def phase_of(cession: Json) -> str:
    return str(cession.get("status", {}).get("phase", CessionPhase.PENDING))


def says_why_its_pods_are_not_ready(cession: Json) -> bool:
    """See `starting_reason` in scheduler/cession/preemptor_state.py."""
    is_admitted = phase_of(cession) == CessionPhase.ADMITTED
    return is_admitted and bool(NOT_READY.search(message_of(cession)))


def message_of(cession: Json) -> str:
    ready = condition(cession.get("status", {}).get("conditions", []), "Ready") or {}
    return str(ready.get("message", ""))


def stopped_jobs(cession: Json) -> list[str]:
    """The jobs that it stopped, those that it shrank left out."""
    names_by_uid = {target["uid"]: str(target["job"]) for target in cession["spec"]["targets"]}
    progress = cession.get("status", {}).get("targets", [])
    return [names_by_uid[target["uid"]] for target in progress if target.get("stopped")]


def stopped_in_vain(picture: Picture) -> list[Json]:
    """The Cessions that stopped a job and whose preemptor did not run."""
    return [
        cession
        for cession in picture.cessions
        if stopped_jobs(cession) and phase_of(cession) != CessionPhase.COMPLETED
    ]


def is_explained(cession: Json) -> bool:
    """Whether its preemptor went away, or it names the cause."""
    message = message_of(cession)
    return message.startswith(GONE) or any(text in message for text in EXPLANATIONS)


# --- queues and Workloads -------------------------------------------------------------------------
def strict_queues(picture: Picture) -> set[str]:
    return {
        str(queue["metadata"]["name"])
        for queue in picture.queues
        if queue["spec"]["queueingStrategy"] == "StrictFIFO"
    }


def strict_for_nobody(picture: Picture) -> set[str]:
    """A queue is strict for a preemptor that Kueue has not admitted yet."""
    return strict_queues(picture) - _queues_of_claims(picture)


def _queues_of_claims(picture: Picture) -> set[str]:
    return {
        str(cession["spec"]["preemptor"]["queue"])
        for cession in picture.cessions
        if not is_ended(cession) and phase_of(cession) != CessionPhase.ADMITTED
    }


def reserved(picture: Picture) -> int:
    """Accelerators that Kueue counts as in use."""
    return sum(map(_reserved_in, picture.queues))


def inactive(picture: Picture) -> list[str]:
    return [
        str(workload["metadata"]["name"])
        for workload in picture.workloads
        if not workload["spec"].get("active", True)
    ]


def owed(picture: Picture) -> Iterator[Json]:
    """The first Workload of each queue, if it waits although the own quota of its team covers it,
    capacity is released for none of the team, and the scheduler does not pause for it. A queue has
    the name of the team's namespace."""
    claimed = _queues_of_claims(picture)
    for queue in picture.queues:
        if queue["metadata"]["name"] in claimed:
            continue
        waiting = [
            workload
            for workload in picture.workloads
            if workload["metadata"]["namespace"] == queue["metadata"]["name"]
            and workload["spec"].get("active", True)
            and not _has(workload, "QuotaReserved")
            and not _has(workload, "Finished")
        ]
        if not waiting:
            continue
        first = min(waiting, key=_order)
        is_covered = _reserved_in(queue) + _requested(first) <= _nominal(queue)
        if is_covered and not _is_paused(first, picture):
            yield first


def _is_paused(workload: Json, picture: Picture) -> bool:
    """After Cessions for it that failed."""
    ends = [
        unix(cession["status"]["completionTime"])
        for cession in picture.cessions
        if cession["spec"]["preemptor"]["uid"] == workload["metadata"]["uid"]
        and phase_of(cession) == CessionPhase.FAILED
        and is_ended(cession)
    ]
    return picture.now < max(ends, default=0.0) + pause_s(len(ends))


def running(picture: Picture) -> dict[str, str]:
    """Since when each Workload has been admitted that has not finished."""
    return {
        str(workload["metadata"]["name"]): str(
            _condition(workload, "Admitted")["lastTransitionTime"]
        )
        for workload in picture.workloads
        if _has(workload, "Admitted") and not _has(workload, "Finished")
    }


def _order(workload: Json) -> tuple[int, str, str]:
    """Kueue's: by priority, then by age."""
    metadata = workload["metadata"]
    return -workload["spec"].get("priority", 0), metadata["creationTimestamp"], metadata["name"]


def _has(workload: Json, name: str) -> bool:
    return _condition(workload, name).get("status") == "True"


def _condition(workload: Json, name: str) -> Json:
    return condition(workload.get("status", {}).get("conditions", []), name) or {}


def _requested(workload: Json) -> int:
    pod_sets = workload.get("status", {}).get("resourceRequests", [])
    return sum(int(pod_set["resources"].get(names.GPU, 0)) for pod_set in pod_sets)


def _nominal(queue: Json) -> int:
    return sum(
        int(resource["nominalQuota"])
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
        for resource in flavor["resources"]
        if resource["name"] == names.GPU
    )


def _reserved_in(queue: Json) -> int:
    return sum(
        int(resource["total"])
        for flavor in queue.get("status", {}).get("flavorsReservation", [])
        for resource in flavor["resources"]
        if resource["name"] == names.GPU
    )


# --- events ---------------------------------------------------------------------------------------
def events(cluster: Cluster) -> list[Json]:
    return list(cluster.kubectl_json("get", "events", "-A")["items"])


def evictions(recorded: list[Json]) -> Counter[tuple[str, str]]:
    """(job, reason) of every eviction by Kueue, as its events count them."""
    counts = Counter[tuple[str, str]]()
    for event in recorded:
        regarding = event.get("involvedObject", {})
        reason = str(event.get("reason", ""))
        if regarding.get("kind") == "Workload" and reason.startswith("EvictedDueTo"):
            counts[job_of(str(regarding["name"])), reason] += int(event.get("count") or 1)
    return counts


def admitted_when_set_aside(recorded: list[Json]) -> Counter[str]:
    """By job: how often it was evicted just after it was set aside, and told so."""
    set_aside = [
        (str(event["involvedObject"]["name"]), event_time(event))
        for event in recorded
        if event.get("reason") == SchedulerEvent.SET_ASIDE
    ]
    counts = Counter[str]()
    for event in recorded:
        if event.get("reason") == "EvictedDueToDeactivated":
            job = job_of(str(event["involvedObject"]["name"]))
            since = [event_time(event) - moment for name, moment in set_aside if name == job]
            counts[job] += any(0.0 <= seconds <= SET_ASIDE_S for seconds in since)
    return counts


def event_time(event: Json) -> float:
    """Unix seconds."""
    return unix(event.get("eventTime") or event["lastTimestamp"])


def job_of(workload: str) -> str:
    """The Workload of a Job is job-NAME-SUFFIX."""
    return workload.removeprefix("job-").rpartition("-")[0]
