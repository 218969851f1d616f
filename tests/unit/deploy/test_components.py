"""What holds for every component that has a program of its own."""

from pathlib import Path

import pytest
import yaml

from tests.harness.component_manifests import manifests
from tests.paths import TREE

DEPLOYMENTS = [
    path
    for folder in ("base", "components")
    for path in sorted((TREE / "deploy" / folder).glob("*/deployment.yaml"))
]


@pytest.mark.parametrize("component", ["dashboard", "ledger"])
def test_it_runs_without_rights_on_its_node(component: str) -> None:
    [deployment] = manifests(component, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def component(path: Path) -> str:
    return path.parent.name


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=component)
def test_a_start_of_minutes_is_not_taken_for_a_hang(path: Path) -> None:
    """Emulated, or on a node that is busy, the imports alone take longer than liveness allows."""
    for container in yaml.safe_load(path.read_text())["spec"]["template"]["spec"]["containers"]:
        startup = container["startupProbe"]
        assert startup["httpGet"] == container["livenessProbe"]["httpGet"]
        assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
        # no start waits for its next probe
        assert startup["periodSeconds"] == 1
