"""Random pictures of a cluster, as objects of the API: whatever an allocation can express.

Amounts are small, so that quota is often just enough, and times and priorities are few, so that
the order often depends on the last rule.
"""

import random

from cede.api import names
from cede.api.objects import Json

FLAVORS = ("a100", "h100", "l4")
RESOURCES = (names.GPU, "cpu", "memory")
TYPE = "type"
CREATED = "2026-01-01T00:00:0{}Z"
EVICTED_AT = "2026-01-01T00:00:02Z"
LATER = "2099-01-01T00:00:00Z"


class Picture:
    """One seed always makes the same picture."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self.flavors = FLAVORS[: self._random.randint(1, 3)]
        self.queues = [f"team-{number}" for number in range(self._random.randint(2, 5))]
        self.objects: dict[str, list[Json]] = {
            "resource_flavors": [self._flavor(name) for name in self.flavors],
            "cohorts": [self._cohort()],
            "cluster_queues": [self._cluster_queue(name) for name in self.queues],
            "local_queues": [self._local_queue(name) for name in self.queues],
            "workloads": [self._workload(number) for number in range(self._random.randint(4, 16))],
        }

    def _is(self, probability: float) -> bool:
        return self._random.random() < probability

    # --- queues -----------------------------------------------------------------------------------
    def _flavor(self, name: str) -> Json:
        spec: Json = {"nodeLabels": {TYPE: name}}
        if self._is(0.2):
            spec["nodeTaints"] = [{"key": name, "value": "yes", "effect": "NoSchedule"}]
        if self._is(0.1):
            spec["tolerations"] = [{"key": name, "operator": "Exists"}]
        return {"metadata": {"name": name, "uid": name}, "spec": spec}

    def _cohort(self) -> Json:
        groups = [self._group(of_queue=False)] if self._is(0.5) else []
        return {"metadata": {"name": names.COHORT}, "spec": {"resourceGroups": groups}}

    def _group(self, *, of_queue: bool) -> Json:
        flavors = list[Json]()
        for flavor in self.flavors:
            resources = [self._resource(resource, of_queue=of_queue) for resource in RESOURCES]
            flavors.append({"name": flavor, "resources": resources})
        return {"coveredResources": list(RESOURCES), "flavors": flavors}

    def _resource(self, resource: str, *, of_queue: bool) -> Json:
        amount = self._random.choice((0, 2, 4, 8))
        quota: Json = {"name": resource, "nominalQuota": str(amount)}
        if of_queue and self._is(0.3):
            quota["borrowingLimit"] = str(self._random.choice((0, 2, 4)))
        if of_queue and self._is(0.3):
            quota["lendingLimit"] = str(self._random.randint(0, amount))
        return quota

    def _cluster_queue(self, name: str) -> Json:
        on_hold = self._is(0.1)
        active = {"type": "Active", "status": "False" if on_hold else "True", "reason": "Any"}
        return {
            "metadata": {"name": name, "uid": name},
            "spec": {
                "cohortName": names.COHORT,
                "queueingStrategy": self._random.choice(("StrictFIFO", "BestEffortFIFO")),
                "namespaceSelector": {},
                "resourceGroups": [self._group(of_queue=True)],
                "stopPolicy": "Hold" if on_hold else "None",
                "preemption": {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"},
                "fairSharing": {"weight": "1"},
            },
            "status": {"conditions": [active | {"lastTransitionTime": EVICTED_AT}]},
        }

    def _local_queue(self, name: str) -> Json:
        policy = "Hold" if self._is(0.1) else "None"
        spec = {"clusterQueue": name, "stopPolicy": policy}
        return {"metadata": {"name": names.LOCAL_QUEUE, "namespace": name}, "spec": spec}

    # --- Workloads --------------------------------------------------------------------------------
    def _workload(self, number: int) -> Json:
        queue = self._random.choice(self.queues)
        pod_sets = [self._pod_set(f"set-{index}") for index in range(self._random.randint(1, 3))]
        uid = f"{self._random.getrandbits(64):016x}"
        metadata: Json = {
            "name": f"job-{number}",
            "namespace": queue,
            "uid": uid,
            "creationTimestamp": CREATED.format(self._random.randint(0, 4)),
        }
        if self._is(0.1):
            gate = self._random.choice(("", "budget"))
            metadata["annotations"] = {names.ADMISSION_GATED_BY: gate}
        spec = {
            "queueName": names.LOCAL_QUEUE,
            "active": not self._is(0.1),
            "priority": self._random.choice((0, 50)),
            "podSets": pod_sets,
        }
        return {"metadata": metadata, "spec": spec, "status": self._status(queue, pod_sets)}

    def _pod_set(self, name: str) -> Json:
        requests = {
            names.GPU: str(self._random.choice((0, 1, 2, 4))),
            "cpu": self._random.choice(("0", "500m", "1", "1500m")),
            "memory": self._random.choice(("1", "2")),
        }
        chosen = self._random.sample(sorted(requests), self._random.randint(1, 3))
        resources = {"requests": {resource: requests[resource] for resource in chosen}}
        template: Json = {"containers": [{"name": "main", "resources": resources}]}
        if self._is(0.3):
            template["nodeSelector"] = {TYPE: self._random.choice(FLAVORS)}
        if self._is(0.3):
            template["affinity"] = {"nodeAffinity": self._affinity()}
        if self._is(0.5):
            template["tolerations"] = [
                {"key": self._random.choice(FLAVORS), "operator": "Exists"},
                {"key": self._random.choice(FLAVORS), "value": "yes", "effect": "NoSchedule"},
            ]
        count = self._random.randint(1, 4)
        return {"name": name, "count": count, "template": {"spec": template}}

    def _affinity(self) -> Json:
        terms = [{"matchExpressions": [self._expression()]} for _ in range(2)]
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": terms[: self._random.randint(1, 2)]
            }
        }

    def _expression(self) -> Json:
        key = TYPE if self._is(0.8) else "zone"
        operator = self._random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        values = self._random.sample(FLAVORS, self._random.randint(1, 2))
        return {"key": key, "operator": operator, "values": values}

    def _status(self, queue: str, pod_sets: list[Json]) -> Json:
        status: Json = {"conditions": []}
        if self._is(0.4):
            self._admit(status, queue, pod_sets)
        else:
            self._wait(status)
        if self._is(0.2):
            status["reclaimablePods"] = [
                {"name": pod_set["name"], "count": self._random.randint(0, pod_set["count"])}
                for pod_set in pod_sets
            ]
        return status

    def _admit(self, status: Json, queue: str, pod_sets: list[Json]) -> None:
        assignments = [self._assignment(pod_set) for pod_set in pod_sets]
        status["admission"] = {"clusterQueue": queue, "podSetAssignments": assignments}
        status["conditions"].append(_condition("QuotaReserved", "True", "QuotaReserved"))
        if self._is(0.2):
            status["conditions"].append(_condition("Evicted", "True", "Preempted"))
        if self._is(0.1):
            status["conditions"].append(_condition("Finished", "True", "Succeeded"))

    def _assignment(self, pod_set: Json) -> Json:
        flavor = self._random.choice(self.flavors)
        (container,) = pod_set["template"]["spec"]["containers"]
        requests = container["resources"]["requests"]
        return {
            "name": pod_set["name"],
            "count": pod_set["count"],
            "flavors": dict.fromkeys(requests, flavor),
            "resourceUsage": {
                resource: _multiply(amount, pod_set["count"])
                for resource, amount in requests.items()
            },
        }

    def _wait(self, status: Json) -> None:
        conditions = status["conditions"]
        if self._is(0.2):
            reason = self._random.choice(("PodsReadyTimeout", "AdmissionCheck", "Preempted"))
            conditions.append(_condition("Evicted", self._random.choice(("True", "False")), reason))
        if self._is(0.1):
            conditions.append(_condition("Requeued", "False", "PodsReadyTimeout"))
        if self._is(0.1):
            conditions.append(_condition("WaitingForReplacementPods", "True", "Any"))
        reason = self._random.choice(("Pending", "Pending", "Pending", "OnHold"))
        if self._is(0.5):
            conditions.append(_condition("QuotaReserved", "False", reason))
        if self._is(0.1):
            status["requeueState"] = {"count": 1, "requeueAt": LATER}


def _condition(type_: str, status: str, reason: str) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": EVICTED_AT,
    }


def _multiply(amount: str, count: int) -> str:
    if amount.endswith("m"):
        return f"{int(amount[:-1]) * count}m"
    return str(int(amount) * count)
