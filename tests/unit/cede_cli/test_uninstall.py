"""`cede uninstall` against an API server over real HTTP, with its manifests and without."""

import pytest
import yaml

from cede.api import names
from cede.api.objects import (
    ALLOCATIONS,
    CESSIONS,
    CLUSTER_QUEUES,
    DEPLOYMENTS,
    PODS,
    POLICIES,
    WORKLOADS,
    Json,
    Kind,
)
from cede.uninstall import ADDITIONS, CLAIMS
from tests.fakes.api_faults import refuses
from tests.fakes.api_server import ApiServer
from tests.paths import TREE
from tests.unit.cede_cli.conftest import Run
from tests.unit.cede_cli.test_release import STOCK, preemption


async def test_uninstall_releases_stops_the_components_and_removes_finalizers(
    server: ApiServer, cede: Run
) -> None:
    for name in (names.QUOTA_CONTROLLER, names.SCHEDULER, names.WEBHOOK):
        metadata = {"name": name, "namespace": names.SYSTEM_NAMESPACE}
        server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {}})
    finalizers = ["other", names.ALLOCATION_FINALIZER]
    server.put(ALLOCATIONS, {"metadata": {"name": "held", "finalizers": finalizers}, "spec": {}})
    code, text, _ = await cede("uninstall")
    assert code == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")
    replicas = {deployment["spec"]["replicas"] for deployment in server.objects(DEPLOYMENTS)}
    assert replicas == {0}
    assert (server.get(ALLOCATIONS, ("", "held")) or {})["metadata"]["finalizers"] == ["other"]
    assert text.splitlines()[-1] == "ComputeAllocation held: may be deleted"
    paths = [path for _, path, *_ in server.writes()]
    last_stop = max(index for index, path in enumerate(paths) if "/deployments/" in path)
    assert last_stop < paths.index(ALLOCATIONS.path(("", "held"))), (
        "a running quota_controller would add its finalizer again"
    )


async def test_uninstall_undoes_the_last_pass_of_a_scheduler_that_stops(
    server: ApiServer, cede: Run
) -> None:
    """It had planned the pass before the policy was changed."""
    metadata = {"name": names.SCHEDULER, "namespace": names.SYSTEM_NAMESPACE}
    server.put(DEPLOYMENTS, {"metadata": metadata, "spec": {}})

    def write_late(method: str, path: str, _: object) -> None:
        if method == "PATCH" and "/deployments/" in path:
            queue = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
            queue["spec"]["queueingStrategy"] = "StrictFIFO"
            server.put(CLUSTER_QUEUES, queue)

    server.admission_hook = write_late
    assert (await cede("uninstall"))[0] == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")


async def test_a_second_uninstall_changes_nothing(server: ApiServer, cede: Run) -> None:
    await cede("uninstall")
    version = server.version
    assert (await cede("uninstall"))[0] == 0
    assert server.version == version


async def test_a_ledger_that_runs_keeps_nothing_waiting(
    server: ApiServer, cede: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods and those of the page have the label of Cede's other pods; a pod of the scheduler
    that stays is a failure."""
    monkeypatch.setattr("cede.uninstall.STOP_TIMEOUT_S", 0.5)
    labels = {"app.kubernetes.io/part-of": "cede", "app.kubernetes.io/name": names.LEDGER}
    metadata: Json = {"name": "p", "namespace": names.SYSTEM_NAMESPACE, "labels": labels}
    server.put(PODS, {"metadata": metadata, "spec": {}})
    assert (await cede("uninstall"))[0] == 0
    labels["app.kubernetes.io/name"] = names.SCHEDULER
    server.put(PODS, {"metadata": metadata, "spec": {}})
    code, _, errors = await cede("uninstall")
    assert code == 1
    assert "pods in namespace cede-system still run" in errors


# --- what the manifests take with them, and what they leave ---------------------------------------
def put_component(server: ApiServer, kind: Kind, name: str) -> None:
    metadata: Json = {"name": name, "labels": {"app.kubernetes.io/part-of": "cede"}}
    if kind.namespaced:
        metadata["namespace"] = names.SYSTEM_NAMESPACE
    server.put(kind, {"metadata": metadata, "spec": {}})


async def test_uninstall_names_the_ledgers_volume_and_the_components_that_are_there(
    server: ApiServer, cede: Run
) -> None:
    """The documented removal deleted the books without a word, and left bindings and alerts."""
    put_component(server, CLAIMS, names.LEDGER)
    for kind, name in ADDITIONS.values():
        put_component(server, kind, name)
    code, _, errors = await cede("uninstall")
    assert code == 0
    claim, components = errors.splitlines()
    assert "cede-system/cede-ledger has the ledger's database" in claim
    assert "backup" in claim
    for folder in sorted(path.name for path in (TREE / "deploy/components").iterdir()):
        assert f"`kubectl delete -k deploy/components/{folder}`" in components
    assert (CLAIMS.path((names.SYSTEM_NAMESPACE, names.LEDGER))) not in {
        path for _, path, *_ in server.writes()
    }


async def test_uninstall_says_nothing_of_components_that_are_not_there(
    server: ApiServer, cede: Run
) -> None:
    gone = refuses(404, "NotFound", "the server could not find the requested resource")
    server.script("GET", ADDITIONS["monitoring"][0].path(), gone)
    server.put(CLAIMS, {"metadata": {"name": names.LEDGER, "namespace": "vision"}, "spec": {}})
    assert (await cede("uninstall"))[::2] == (0, "")


@pytest.mark.parametrize("folder", ADDITIONS)
def test_each_component_has_the_object_by_which_it_is_known(folder: str) -> None:
    kind, name = ADDITIONS[folder]
    files = (TREE / "deploy/components" / folder).glob("*.yaml")
    objects = [obj for file in files for obj in yaml.safe_load_all(file.read_text())]
    # the tests of the alerts have no kind
    known = [obj for obj in objects if obj.get("kind") == kind.kind]
    places = {(obj["apiVersion"], obj["metadata"]["name"]) for obj in known}
    assert (kind.api_version, name) in places


def test_the_way_back_takes_over_the_fields_that_uninstall_wrote() -> None:
    """The API server refuses to apply the manifests over the replicas of another field manager."""
    text = (TREE / "docs/install.md").read_text().partition("## Uninstall")[2]
    assert "kubectl apply --server-side --force-conflicts -k deploy/overlays/production" in text
    assert """patch clusterpolicy default --type merge -p '{"spec": {"mode": "Enforce"}}'""" in text


# --- the manifests are deleted first --------------------------------------------------------------
def put_deleted(server: ApiServer, name: str, **spec: bool) -> None:
    """An allocation whose deletion nobody ends, and its queue, which the quota_controller had put
    on hold until it is drained."""
    finalizers = [names.ALLOCATION_FINALIZER]
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers}
    server.put(ALLOCATIONS, {"metadata": {"name": name} | deleted, "spec": spec})
    queue = server.get(CLUSTER_QUEUES, ("", name)) or {}
    queue["spec"]["stopPolicy"] = "Hold"
    server.put(CLUSTER_QUEUES, queue)


def stop_policy(server: ApiServer, name: str) -> str:
    return str((server.get(CLUSTER_QUEUES, ("", name)) or {})["spec"]["stopPolicy"])


def remove_manifests(server: ApiServer) -> None:
    """No policy, no Deployment, and of the CRDs only the one that waits for its objects."""
    server.remove(POLICIES, ("", "default"))
    gone = refuses(404, "NotFound", "the server could not find the requested resource")
    server.script("PATCH", POLICIES.path(("", "default")), gone, gone)
    server.script("GET", CESSIONS.path(), gone, gone)


async def test_uninstall_ends_a_deletion_of_the_manifests_that_hangs(
    server: ApiServer, cede: Run
) -> None:
    put_deleted(server, "vision")
    remove_manifests(server)
    code, text, errors = await cede("uninstall")
    assert (code, errors) == (0, "")
    assert server.get(ALLOCATIONS, ("", "vision")) is None, "so the CRD goes, too"
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")
    assert stop_policy(server, "vision") == "None"
    assert text.splitlines() == [
        "ClusterQueue vision: Kueue's own preemption",
        "ClusterQueue research: Kueue's own preemption",
        "ClusterQueue vision: Kueue's own preemption, and it admits jobs again",
        "ComputeAllocation vision: its deletion ends",
    ]
    version = server.version
    assert (await cede("uninstall"))[0] == 0
    assert server.version == version, "a second one changes nothing"


async def test_a_queue_that_its_admin_had_put_on_hold_stays_so(
    server: ApiServer, cede: Run
) -> None:
    put_deleted(server, "vision", active=False)
    assert (await cede("uninstall"))[0] == 0
    assert stop_policy(server, "vision") == "Hold"


async def test_a_queue_without_an_allocation_admits_jobs_again(
    server: ApiServer, cede: Run
) -> None:
    """The quota_controller drains it, and nobody else would open it."""
    put_deleted(server, "vision")
    server.remove(ALLOCATIONS, ("", "vision"))
    assert (await cede("uninstall"))[0] == 0
    assert stop_policy(server, "vision") == "None"


async def test_release_opens_no_queue_of_a_team_that_is_being_deleted(
    server: ApiServer, cede: Run
) -> None:
    """A quota_controller that comes back deletes it once it is drained."""
    put_deleted(server, "vision")
    assert (await cede("release"))[0] == 0
    assert stop_policy(server, "vision") == "Hold"


async def test_uninstall_removes_the_finalizer_of_an_allocation_it_cannot_read(
    server: ApiServer, cede: Run
) -> None:
    """As of a newer version."""
    finalizers = [names.ALLOCATION_FINALIZER]
    server.put(ALLOCATIONS, {"metadata": {"name": "newer", "finalizers": finalizers}, "spec": 1})
    assert (await cede("uninstall"))[0] == 0
    assert not (server.get(ALLOCATIONS, ("", "newer")) or {})["metadata"]["finalizers"]


@pytest.mark.parametrize("word", ["release", "uninstall"])
async def test_it_ends_when_kueue_was_removed_before(
    server: ApiServer, cede: Run, word: str
) -> None:
    gone = refuses(404, "NotFound", "the server could not find the requested resource")
    for kind in (CLUSTER_QUEUES, WORKLOADS):
        server.script("GET", kind.path(), gone, gone)
    code, text, _ = await cede(word)
    assert (code, text.splitlines()) == (0, ["ClusterPolicy: mode Observe"])


async def test_all_of_it_deleted_is_no_error(server: ApiServer, cede: Run) -> None:
    remove_manifests(server)
    gone = refuses(404, "NotFound", "the server could not find the requested resource")
    server.script("GET", ALLOCATIONS.path(), gone, gone, gone)
    queue: Json = server.get(CLUSTER_QUEUES, ("", "vision")) or {}
    assert queue["spec"]["preemption"] != STOCK
    assert (await cede("uninstall"))[0] == 0
    assert preemption(server, "vision") == (STOCK, "BestEffortFIFO")
