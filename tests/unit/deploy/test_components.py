"""What holds for every component that has a program of its own."""

import pytest

from tests.harness.component_manifests import manifests


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
