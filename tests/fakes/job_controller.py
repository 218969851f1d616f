"""A small Job controller: makes the pods that Kueue allows, all ready at once."""

from collections import defaultdict
from collections.abc import Mapping

from cede.api import names
from cede.api.objects import JOBS, PODS, Json, Key
from tests.fakes.api_server import ApiServer
from tests.fakes.runtime import loopback_address

GPU = "nvidia.com/gpu"
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}]}}
READY = {"type": "Ready", "status": "True"}
# annotation of a test's Job: the address of its pods
ADDRESS = "test/address"
# no runtime answers there
SILENT_ADDRESS = loopback_address(2)


def make_pods(server: ApiServer, granted: Mapping[str, int]) -> None:
    """`granted`: by the Job's uid, how many pods have quota."""
    jobs = server.objects(JOBS)
    uids = {job["metadata"]["uid"] for job in jobs}
    existing = defaultdict[Key, set[Key]](set)
    for pod in server.objects(PODS):
        namespace, name = key_of(pod)
        uid = pod["metadata"]["labels"].get(names.POD_JOB_UID)
        if uid in uids:
            existing[namespace, name.rsplit("-", 1)[0]].add((namespace, name))
        elif uid:
            server.remove(PODS, (namespace, name))
    for job in jobs:
        # no node gets a pod with a scheduling gate
        is_gated = "schedulingGates" in template_of(job)["spec"]
        count = min(granted.get(job["metadata"]["uid"], 0), job["spec"]["parallelism"])
        _make_pods_of(server, job, 0 if is_gated else count, existing[key_of(job)])


def _make_pods_of(server: ApiServer, job: Json, count: int, existing: set[Key]) -> None:
    namespace, name = key_of(job)
    wanted = {(namespace, f"{name}-{index}") for index in range(count)}
    for key in existing - wanted:
        server.remove(PODS, key)
    for key in wanted - existing:
        server.put(PODS, _pod_of(job, key))


def _pod_of(job: Json, key: Key) -> Json:
    address = job["metadata"].get("annotations", {}).get(ADDRESS, SILENT_ADDRESS)
    labels = {
        names.POD_JOB_UID: job["metadata"]["uid"],
        names.POD_INDEX: key[1].rsplit("-", 1)[1],
    }
    metadata: Json = {"namespace": key[0], "name": key[1], "labels": labels}
    metadata["ownerReferences"] = [owner_reference(job)]
    return {
        "metadata": metadata,
        "spec": TEMPLATE["spec"] | {"nodeName": "n1"},
        "status": {"phase": "Running", "podIP": address, "conditions": [READY]},
    }


def key_of(body: Json) -> Key:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]


def template_of(job: Json) -> Json:
    template: Json = job["spec"].get("template", TEMPLATE)
    return template


def owner_reference(job: Json) -> Json:
    metadata = job["metadata"]
    uid = metadata.get("uid", "")
    return {"kind": "Job", "name": metadata["name"], "uid": uid, "controller": True}
