"""What must hold while teams trade and the cluster fails, and afterwards."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cede.api import names
from cede.api.objects import Json, condition, unix
from cede.api.reasons import SchedulerEvent

# the fixture of tests/conftest.py
Cluster = Any
ACCELERATORS = 8
SET_ASIDE_S = 10
"""A job that waits is set inactive for another. Kueue may be about to admit it, and evicts it when
it sees the change, so long afterwards at most."""
OVER_QUOTA_S = 90
"""How long Kueue may count more in use than there is. Two admissions of one cycle can exceed the
quota, until the scheduler shrinks one of them. A Kueue that was killed leads again after 30 s, and
its last counts stay until then."""
ADMISSION_S = 60
"""A Cession whose targets have released ends so long afterwards, admitted or not."""
SLACK_S = 30
RECOVERY_S = 45
"""After a fault, until its controllers lead and its nodes are ready again."""


class BrokenPromiseError(Exception):
    """What must hold does not."""


class Watch:
    """The promises that hold all the while. Faults that last give the cluster more time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # Unix seconds: when each fault began, and when the cluster had recovered from it
        self._faults: list[tuple[float, float]] = []
        self._strict_since: dict[str, float] = {}

    @contextmanager
    def fault(self) -> Iterator[None]:
        """Inside, something may fail for a while."""
        began = time.time()
        try:
            yield
        finally:
            self._faults.append((began, time.time() + RECOVERY_S))

    def check(self) -> bool:
        """Raises BrokenPromiseError, or AssertionError while the API server does not answer."""
        within = f"at most {ACCELERATORS} accelerators to be in use"
        self._cluster.until(lambda: reserved(self._cluster) <= ACCELERATORS, within, OVER_QUOTA_S)
        now = time.time()
        for cession in cessions(self._cluster):
            self._check_cession(cession, now)
        self._check_queues(now)
        return True

    def _check_cession(self, cession: Json, now: float) -> None:
        if is_ended(cession):
            return
        created = unix(cession["metadata"]["creationTimestamp"])
        graces = [target["graceSeconds"] for target in cession["spec"]["targets"]]
        limit_s = cession["spec"].get("round", 1) * max(graces, default=0) + ADMISSION_S + SLACK_S
        open_s = now - created - self._disturbed_s(created, now)
        # the pods of its preemptor cannot start, and it names those
        status = cession.get("status", {})
        ready = condition(status.get("conditions", []), "Ready") or {}
        message = str(ready.get("message", ""))
        is_explained = status.get("phase") == "Admitted" and "ready. " in message
        if open_s > limit_s and not is_explained:
            raise BrokenPromiseError(f"open for {open_s:.0f} s undisturbed: {cession}")

    def _check_queues(self, now: float) -> None:
        """Only an open Cession needs a strict queue."""
        needed = {
            cession["spec"]["preemptor"]["queue"]
            for cession in cessions(self._cluster)
            if not is_ended(cession)
        }
        strict = set(strict_queues(self._cluster)) - needed
        self._strict_since = {queue: self._strict_since.get(queue, now) for queue in strict}
        for queue, since in self._strict_since.items():
            strict_s = now - since - self._disturbed_s(since, now)
            if strict_s > SLACK_S:
                raise BrokenPromiseError(f"{queue} is StrictFIFO for nobody: {strict_s:.0f} s")

    def _disturbed_s(self, start: float, end: float) -> float:
        """How much of this time a fault lasted, or the cluster recovered from one."""
        disturbed_s = 0.0
        covered_until = start
        for began, recovered in self._faults:
            first, last = max(began, covered_until), min(recovered, end)
            disturbed_s += max(0.0, last - first)
            covered_until = max(covered_until, last)
        return disturbed_s


def cessions(cluster: Cluster) -> list[Json]:
    return list(cluster.kubectl_json("get", "cessions")["items"])


def is_ended(cession: Json) -> bool:
    return bool(cession.get("status", {}).get("completionTime"))


def open_cessions(cluster: Cluster) -> list[str]:
    return [
        str(cession["metadata"]["name"]) for cession in cessions(cluster) if not is_ended(cession)
    ]


def stopped_jobs(cession: Json) -> list[str]:
    """The jobs that it stopped, those that it shrank left out."""
    names_by_uid = {target["uid"]: str(target["job"]) for target in cession["spec"]["targets"]}
    progress = cession.get("status", {}).get("targets", [])
    return [names_by_uid[target["uid"]] for target in progress if target.get("stopped")]


def stopped_in_vain(cluster: Cluster) -> list[Json]:
    """Of every Cession that stopped a job and whose preemptor did not run: who, and why."""
    return [
        {
            "cession": cession["metadata"]["name"],
            "phase": cession["status"]["phase"],
            "stopped": stopped_jobs(cession),
            "why": (condition(cession["status"].get("conditions", []), "Ready") or {}).get(
                "message", ""
            ),
        }
        for cession in cessions(cluster)
        if stopped_jobs(cession) and cession["status"].get("phase") != "Completed"
    ]


def admitted_when_set_aside(cluster: Cluster) -> Counter[str]:
    """By job: how often it was evicted just after it was set aside, and told so."""
    events = cluster.kubectl_json("get", "events", "-A")["items"]
    set_aside = [
        (str(event["involvedObject"]["name"]), event_time(event))
        for event in events
        if event.get("reason") == SchedulerEvent.SET_ASIDE
    ]
    counts = Counter[str]()
    for event in events:
        if event.get("reason") == "EvictedDueToDeactivated":
            job = job_of(str(event["involvedObject"]["name"]))
            since = [event_time(event) - moment for name, moment in set_aside if name == job]
            counts[job] += any(0.0 <= seconds <= SET_ASIDE_S for seconds in since)
    return counts


def event_time(event: Json) -> float:
    """Unix seconds."""
    return unix(event.get("eventTime") or event["lastTimestamp"])


def strict_queues(cluster: Cluster) -> list[str]:
    return [
        str(queue["metadata"]["name"])
        for queue in cluster.kubectl_json("get", "clusterqueues")["items"]
        if queue["spec"]["queueingStrategy"] == "StrictFIFO"
    ]


def reserved(cluster: Cluster) -> int:
    """Accelerators that Kueue counts as in use."""
    return sum(
        int(resource["total"])
        for queue in cluster.kubectl_json("get", "clusterqueues")["items"]
        for flavor in queue.get("status", {}).get("flavorsReservation", [])
        for resource in flavor["resources"]
        if resource["name"] == names.GPU
    )


def inactive(cluster: Cluster) -> list[str]:
    return [
        str(workload["metadata"]["name"])
        for workload in cluster.kubectl_json("get", "workloads", "-A")["items"]
        if not workload["spec"].get("active", True)
    ]


def evictions(cluster: Cluster) -> Counter[tuple[str, str]]:
    """(job, reason) of every eviction by Kueue, as its events count them."""
    counts = Counter[tuple[str, str]]()
    for event in cluster.kubectl_json("get", "events", "-A")["items"]:
        regarding = event.get("involvedObject", {})
        reason = str(event.get("reason", ""))
        if regarding.get("kind") == "Workload" and reason.startswith("EvictedDueTo"):
            counts[job_of(str(regarding["name"])), reason] += int(event.get("count") or 1)
    return counts


def job_of(workload: str) -> str:
    """The Workload of a Job is job-NAME-SUFFIX."""
    return workload.removeprefix("job-").rpartition("-")[0]
