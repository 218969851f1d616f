"""Jobs outside of any team, in queues that each have another fault, and what `cede explain` says
of them."""

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from cede.api import names
from cede.api.objects import Json
from cede.api.wait_reasons import WaitReason
from cede.cli import main
from deploy.local.images import TRAINING
from tests.harness.local_cluster import Cluster
from tests.integration.admin import condition_of, kubectl_list

NAMESPACE = "expl-plain"
FLAVOR = "expl-any"
ZONED = "expl-zoned"
ZONE = "cede.test/zone"
CHECK = "expl-check"
GATE = "cede.test/gate"
NOWHERE = {"nodeSelector": {"cede.test/nowhere": "true"}}
REASON_TIMEOUT_S = 90
CPU = "10m"
"""What a pod asks for. It counts quota, not work."""


def explain(cluster: Cluster, namespace: str, job: str) -> Json:
    """What the command prints as JSON to an admin."""
    return run_explain(cluster.kubeconfig, namespace, job)[0]


def run_explain(kubeconfig: Path, namespace: str, job: str) -> tuple[Json, str]:
    """The facts, and the lines on standard error, by the command's own code in this process."""
    printed, errors = io.StringIO(), io.StringIO()
    words = ("explain", job, "-n", namespace, "-o", "json", "--kubeconfig", str(kubeconfig))
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        main(words)
    # the command turns logs off for its whole process
    logging.disable(logging.NOTSET)
    assert printed.getvalue(), errors.getvalue()
    return json.loads(printed.getvalue()), errors.getvalue()


def kubeconfig_of(cluster: Cluster, namespace: str, account: str, path: Path) -> Path:
    """Of a ServiceAccount, which is created."""
    cluster.kubectl("create", "serviceaccount", account, "-n", namespace)
    token = cluster.kubectl("create", "token", account, "-n", namespace).strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    path.write_text(yaml.safe_dump(config))
    return path


def wait_for_reason(cluster: Cluster, namespace: str, job: str, reason: WaitReason) -> Json:
    """The explanation, as soon as its first cause has this reason."""

    def explained() -> Json:
        facts = explain(cluster, namespace, job)
        assert facts["reason"] == reason, f"{facts['reason']}: {facts['why']}"
        return facts

    return cluster.until(
        explained, f"{namespace}/{job} to be explained by {reason}", REASON_TIMEOUT_S
    )


def wait_for_event(cluster: Cluster, namespace: str, job: str, reason: WaitReason) -> str:
    """The message of the event that says why the Job waits."""
    chosen = f"involvedObject.kind=Job,involvedObject.name={job},reason={reason}"

    def message() -> str:
        events = cluster.kubectl_json("get", "events", "-n", namespace, "--field-selector", chosen)
        assert events["items"], "there is no such event"
        return str(events["items"][-1]["message"])

    return cluster.until(message, f"an event {reason} of {namespace}/{job}", REASON_TIMEOUT_S)


# --- queues ---------------------------------------------------------------------------------------
def cluster_queue(name: str, cpu: str = "1", flavor: str = FLAVOR, **spec: Any) -> Json:
    resources = [{"name": "cpu", "nominalQuota": cpu}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": flavor, "resources": resources}]}
    body = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    return kueue("ClusterQueue", name, spec=body)


def kueue(kind: str, name: str, namespace: str = "", **fields: Any) -> Json:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **fields}


QUEUES = [
    kueue("ResourceFlavor", FLAVOR, spec={}),
    kueue("ResourceFlavor", ZONED, spec={"nodeLabels": {ZONE: "a"}}),
    kueue("AdmissionCheck", CHECK, spec={"controllerName": "cede.test/nobody"}),
    cluster_queue("expl-open"),
    cluster_queue("expl-zoned", flavor=ZONED),
    cluster_queue("expl-broken", flavor="expl-missing"),
    cluster_queue("expl-picky", namespaceSelector={"matchLabels": {"cede.test/team": "other"}}),
    cluster_queue("expl-small", "20m"),
    cluster_queue("expl-behind", "20m", queueingStrategy="StrictFIFO"),
    cluster_queue("expl-hopeless", "20m", queueingStrategy="StrictFIFO"),
    cluster_queue("expl-checked", admissionChecksStrategy={"admissionChecks": [{"name": CHECK}]}),
]
OF_TESTS = ("open", "zoned", "broken", "picky", "small", "behind", "hopeless", "checked")
LOCAL_QUEUES = [
    *(
        kueue("LocalQueue", name, NAMESPACE, spec={"clusterQueue": f"expl-{name}"})
        for name in OF_TESTS
    ),
    kueue("LocalQueue", "lost", NAMESPACE, spec={"clusterQueue": "expl-nowhere"}),
    kueue(
        "LocalQueue", "held", NAMESPACE, spec={"clusterQueue": "expl-open", "stopPolicy": "Hold"}
    ),
]


# --- jobs -----------------------------------------------------------------------------------------
def job(name: str, queue: str, pods: int = 1, **more: Any) -> Json:
    """`container` and `pod` change the template, `labels` and `annotations` the Job."""
    container = {
        "name": "main",
        "image": TRAINING,
        "imagePullPolicy": "Never",
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": CPU}},
        **more.get("container", {}),
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
        **more.get("pod", {}),
    }
    labels = {names.QUEUE_NAME: queue} if queue else {}
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "labels": labels | more.get("labels", {}),
        "annotations": more.get("annotations", {}),
    }
    spec = {"suspend": bool(queue), "parallelism": pods, "completions": pods, "backoffLimit": 0}
    template = {"spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {**spec, "template": template, **more.get("spec", {})},
    }


MISSING_SECRET = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "none", "key": "x"}}}
CRASHES = {"command": ["python", "-c", "raise SystemExit(3)"]}
FOREIGN = {"requests": {"cpu": CPU, "cede.test/tpu": "1"}, "limits": {"cede.test/tpu": "1"}}
JOBS = {
    WaitReason.NOT_QUEUED: job("unqueued", "", spec={"suspend": True}),
    WaitReason.UNKNOWN_LOCAL_QUEUE: job("misspelled", "nobody"),
    WaitReason.UNKNOWN_PRIORITY_CLASS: job(
        "classless", "open", labels={names.PRIORITY_CLASS: "nobody"}
    ),
    WaitReason.UNKNOWN_CLUSTER_QUEUE: job("lost", "lost"),
    WaitReason.QUEUE_ON_HOLD: job("held", "held"),
    WaitReason.QUEUE_UNUSABLE: job("broken", "broken"),
    WaitReason.NAMESPACE_NOT_SELECTED: job("picky", "picky"),
    WaitReason.ADMISSION_GATED: job("gated", "open", annotations={names.ADMISSION_GATED_BY: GATE}),
    WaitReason.ADMISSION_CHECK_PENDING: job("checked", "checked"),
    WaitReason.NO_FLAVOR_MATCHES: job("elsewhere", "zoned", pod={"nodeSelector": {ZONE: "b"}}),
    WaitReason.RESOURCE_NOT_IN_QUEUE: job("foreign", "open", container={"resources": FOREIGN}),
    WaitReason.EXCEEDS_MAXIMUM: job("large", "small", 4),
    WaitReason.IMAGE_NOT_PULLED: job("imageless", "open", container={"image": "none.test/none:1"}),
    WaitReason.CONTAINER_NOT_CREATED: job("secret", "open", container={"env": [MISSING_SECRET]}),
    WaitReason.CONTAINER_CRASHES: job(
        "crashing", "open", container=CRASHES, spec={"backoffLimit": 6}
    ),
    WaitReason.POD_UNSCHEDULABLE: job("homeless", "open", pod=NOWHERE),
    WaitReason.POD_GATED: job("pod-gated", "open", pod={"schedulingGates": [{"name": GATE}]}),
}
"""The reason that each of them must have."""
FIRST = job("behind-uses", "behind", pod=NOWHERE)
"""It has quota before there is a head that could have it."""
HEADS = [
    job("behind-head", "behind", 2, labels={names.PRIORITY_CLASS: "expl-high"}),
    job("hopeless-head", "hopeless", 4, labels={names.PRIORITY_CLASS: "expl-high"}),
]
"""They wait before there is anything behind them that Kueue could admit."""
BEHIND = [job("behind", "behind"), job("hopeless", "hopeless", 1)]
HIGH = kueue("WorkloadPriorityClass", "expl-high", value=10)


@contextlib.contextmanager
def plain_jobs(cluster: Cluster) -> Iterator[None]:
    """A namespace with these queues and jobs; all of it is gone afterwards."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    cluster.kubectl("apply", "-f", "-", stdin=kubectl_list(namespace, HIGH, *QUEUES, *LOCAL_QUEUES))
    try:
        activate_check(cluster)
        cluster.kubectl("create", "-f", "-", stdin=kubectl_list(FIRST, *JOBS.values()))
        cluster.until(lambda: has_quota(cluster, "behind-uses"), "behind-uses to have quota", 60)
        cluster.kubectl("create", "-f", "-", stdin=kubectl_list(*HEADS))
        for head in (head["metadata"]["name"] for head in HEADS):
            cluster.until(partial(waits, cluster, head), f"{head} to wait", 60)
        cluster.kubectl("create", "-f", "-", stdin=kubectl_list(*BEHIND))
        yield
    finally:
        cluster.kubectl("delete", "jobs", "--all", "-n", NAMESPACE, "--wait=true")
        shared = kubectl_list(HIGH, *QUEUES, *LOCAL_QUEUES)
        cluster.kubectl("delete", "-f", "-", "--ignore-not-found", "--timeout=60s", stdin=shared)
        cluster.kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")


def activate_check(cluster: Cluster) -> None:
    """As its controller would."""
    active = {
        "type": "Active",
        "status": "True",
        "reason": "Active",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = json.dumps({"status": {"conditions": [active]}})
    cluster.kubectl(
        *("patch", "admissioncheck", CHECK, "--subresource=status", "--type=merge", "-p", patch)
    )


def has_quota(cluster: Cluster, name: str) -> bool:
    return quota_reserved(cluster, name) == "True"


def waits(cluster: Cluster, name: str) -> bool:
    """Kueue has tried to admit it."""
    return quota_reserved(cluster, name) == "False"


def quota_reserved(cluster: Cluster, name: str) -> str:
    """Of the Job's Workload, as its condition says."""
    for item in cluster.kubectl_json("get", "workloads", "-n", NAMESPACE)["items"]:
        if item["metadata"]["ownerReferences"][0]["name"] == name:
            return str(condition_of(item, names.QUOTA_RESERVED).get("status", ""))
    return ""
