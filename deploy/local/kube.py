"""kubectl against the local cluster, and what is applied with it: Kueue and Cede."""

import hashlib
import json
import shutil
from typing import Any

from deploy.local.images import CEDE
from deploy.local.paths import TREE, Failure, Places
from deploy.local.shell import sh, stage, until

KUEUE = "kueue-system"
SYSTEM = "cede-system"
OVERLAY = TREE / "deploy" / "overlays" / "local"


def kubectl(places: Places, *argv: str, check: bool = True, stdin: str | None = None) -> str:
    return sh(places.kubectl, "--kubeconfig", places.kubeconfig, *argv, check=check, stdin=stdin)


def items(places: Places, *argv: str) -> list[Any]:
    """The objects that `kubectl get ARGV` finds; none when it fails."""
    answer = kubectl(places, "get", *argv, "-o", "json", check=False)
    return list(json.loads(answer)["items"]) if answer else []


def kueue_manifests(places: Places) -> str:
    """Kueue's own config/ folder, with the settings of deploy/local/kueue."""
    settings = places.share / "settings"
    shutil.rmtree(settings, ignore_errors=True)
    shutil.copytree(TREE / "deploy" / "local" / "kueue", settings)
    return sh(places.kubectl, "kustomize", settings)


def apply_kueue(places: Places) -> None:
    """Kueue runs with these manifests and takes jobs."""
    manifests = kueue_manifests(places)
    noted = places.run / "kueue.key"
    key = hashlib.sha256(manifests.encode()).hexdigest()
    if not (noted.exists() and noted.read_text() == key):
        known = noted.exists()
        kubectl(places, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
        # it reads its settings at its start only
        if known:
            kubectl(
                places, "rollout", "restart", "-n", KUEUE, "deployment/kueue-controller-manager"
            )
        noted.write_text(key)
    with stage("Kueue available"):
        wait_available(places, KUEUE, 180)


def has_cede(places: Places) -> bool:
    return (places.run / "cede.key").exists()


def apply_cede(places: Places, keys: dict[str, str]) -> None:
    """Cede's Deployments run the images of `keys`. Without the overlay, or the folders it names,
    nothing is done."""
    manifests = sh(places.kubectl, "kustomize", OVERLAY)
    noted = places.run / "cede.key"
    manifests_key = hashlib.sha256(manifests.encode()).hexdigest()
    held = noted.read_text().split() if noted.exists() else []
    if held[:1] != [manifests_key] or not items(places, "deployments", "-n", SYSTEM):
        # Kueue's webhooks look at Deployments too, and its Service may take a moment to know its
        # pod.
        until(
            lambda: try_apply(places, manifests),
            "the API server to take Cede's manifests",
            30,
            every=0.5,
        )
    if held and held[1] != keys[CEDE]:
        kubectl(places, "rollout", "restart", "-n", SYSTEM, "deployment")
    with stage("Cede available"):
        wait_available(places, SYSTEM, 120)
    noted.write_text(f"{manifests_key} {keys[CEDE]}")


def try_apply(places: Places, manifests: str) -> bool:
    try:
        kubectl(places, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=manifests)
    except Failure as failure:
        if "failed calling webhook" in str(failure) or "no matches for kind" in str(failure):
            return False
        raise
    return True


def wait_available(places: Places, namespace: str, seconds: int) -> None:
    """Every Deployment of the namespace is rolled out. Raises Failure with what its pods say."""
    try:
        for item in items(places, "deployment", "-n", namespace):
            name = item["metadata"]["name"]
            kubectl(
                places,
                "rollout",
                "status",
                "-n",
                namespace,
                f"deployment/{name}",
                f"--timeout={seconds}s",
            )
    except Failure as failure:
        raise Failure(f"{failure}\n{troubles(places, namespace)}") from failure


def troubles(places: Places, namespace: str) -> str:
    """What each pod that is not ready says of itself."""
    lines = []
    for pod in items(places, "pods", "-n", namespace):
        for state in pod["status"].get("containerStatuses", []):
            if not state["ready"]:
                lines.append(
                    f"{pod['metadata']['name']}: "
                    f"{json.dumps(state['state'] | state.get('lastState', {}))}"
                )
                lines.append(
                    kubectl(
                        places,
                        "logs",
                        "-n",
                        namespace,
                        pod["metadata"]["name"],
                        "--tail=5",
                        check=False,
                    )
                )
    return "\n".join(lines)
