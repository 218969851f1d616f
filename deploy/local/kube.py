"""Applies Kueue and Cede to the local cluster with kubectl."""

import hashlib
import json
import shutil
from typing import Any

from deploy.local.images import CEDE
from deploy.local.paths import TREE, Failure, Paths
from deploy.local.shell import run_command, stage, wait_until

KUEUE_NAMESPACE = "kueue-system"
CEDE_NAMESPACE = "cede-system"
OVERLAY = TREE / "deploy" / "overlays" / "local"


def kubectl(paths: Paths, *argv: str, check: bool = True, stdin: str | None = None) -> str:
    return run_command(
        paths.kubectl, "--kubeconfig", paths.kubeconfig, *argv, check=check, stdin=stdin
    )


def items(paths: Paths, *argv: str) -> list[Any]:
    """The objects that `kubectl get ARGV` returns; none if it fails."""
    output = kubectl(paths, "get", *argv, "-o", "json", check=False)
    return list(json.loads(output)["items"]) if output else []


def kueue_manifests(paths: Paths) -> str:
    """Kueue's own manifests with the settings of deploy/local/kueue."""
    settings = paths.share / "settings"
    shutil.rmtree(settings, ignore_errors=True)
    shutil.copytree(TREE / "deploy" / "local" / "kueue", settings)
    if gates := paths.cell.kueue_gates:
        with open(settings / "settings.yaml", "a") as file:
            # the end of the file is Kueue's configuration, as text
            file.write(f"    featureGates: {json.dumps(dict.fromkeys(gates, True))}\n")
    return run_command(paths.kubectl, "kustomize", settings)


def apply_kueue(paths: Paths) -> None:
    """Kueue runs with the present manifests afterwards, and is available."""
    manifests = kueue_manifests(paths)
    record = paths.run / "kueue.key"
    key = hashlib.sha256(manifests.encode()).hexdigest()
    if not (record.exists() and record.read_text() == key):
        installed = record.exists()
        kubectl(paths, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
        # Kueue reads its settings only when it starts
        if installed:
            restart_kueue(paths)
        record.write_text(key)
    with stage("Kueue available"):
        wait_available(paths, KUEUE_NAMESPACE, 180)


def restart_kueue(paths: Paths) -> None:
    """Another Kueue runs afterwards, and is available."""
    with stage("Kueue restarted"):
        deployment = "deployment/kueue-controller-manager"
        kubectl(paths, "rollout", "restart", "-n", KUEUE_NAMESPACE, deployment)
        wait_available(paths, KUEUE_NAMESPACE, 180)


def cede_is_installed(paths: Paths) -> bool:
    return (paths.run / "cede.key").exists()


def apply_cede(paths: Paths, keys: dict[str, str]) -> None:
    """Cede's Deployments run the images of `keys` afterwards, and are available."""
    manifests = run_command(paths.kubectl, "kustomize", OVERLAY)
    record = paths.run / "cede.key"
    manifests_key = hashlib.sha256(manifests.encode()).hexdigest()
    applied = record.read_text().split() if record.exists() else []
    if applied[:1] != [manifests_key] or not items(paths, "deployments", "-n", CEDE_NAMESPACE):
        # Kueue's webhooks see Deployments too. They fail until its Service has its pod.
        wait_until(
            lambda: try_apply(paths, manifests),
            "the API server to accept Cede's manifests",
            30,
            interval_s=0.5,
        )
    if applied and applied[1] != keys[CEDE]:
        kubectl(paths, "rollout", "restart", "-n", CEDE_NAMESPACE, "deployment")
    with stage("Cede available"):
        wait_available(paths, CEDE_NAMESPACE, 120)
    record.write_text(f"{manifests_key} {keys[CEDE]}")


def try_apply(paths: Paths, manifests: str) -> bool:
    """False if it may succeed later: a webhook or a CRD is not available yet."""
    try:
        kubectl(paths, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    except Failure as failure:
        if "failed calling webhook" in str(failure) or "no matches for kind" in str(failure):
            return False
        raise
    return True


def wait_available(paths: Paths, namespace: str, seconds: int) -> None:
    """Waits until every Deployment is rolled out. Raises Failure with the state of its pods."""
    try:
        for item in items(paths, "deployment", "-n", namespace):
            name = f"deployment/{item['metadata']['name']}"
            kubectl(paths, "rollout", "status", "-n", namespace, name, f"--timeout={seconds}s")
    except Failure as failure:
        raise Failure(f"{failure}\n{pod_problems(paths, namespace)}") from failure


def available_replicas(paths: Paths, namespace: str) -> dict[str, str]:
    """`available/wanted` by Deployment."""
    replicas = {}
    for item in items(paths, "deployments", "-n", namespace):
        available = item["status"].get("availableReplicas", 0)
        replicas[item["metadata"]["name"]] = f"{available}/{item['spec']['replicas']}"
    return replicas


def pod_problems(paths: Paths, namespace: str) -> str:
    """The state and the last log lines of each container that is not ready."""
    lines = []
    for pod in items(paths, "pods", "-n", namespace):
        name = pod["metadata"]["name"]
        for container in pod["status"].get("containerStatuses", []):
            if not container["ready"]:
                state = container["state"] | container.get("lastState", {})
                lines.append(f"{name}: {json.dumps(state)}")
                lines.append(kubectl(paths, "logs", "-n", namespace, name, "--tail=5", check=False))
    return "\n".join(lines)
