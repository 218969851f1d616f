"""Which namespaces no allocation may have."""

import pytest

from cede.api.allocation import RESERVED_NAMESPACES, is_reserved
from cede.api.team_security import CONTROLLER_NAMESPACES


@pytest.mark.parametrize(
    "namespace", [*CONTROLLER_NAMESPACES, "default", "cede-system", "kube-flannel", "openshift-dns"]
)
def test_a_namespace_of_the_cluster_or_of_controllers_is_no_teams(namespace: str) -> None:
    """Its members would act through accounts that the admission policies take for controllers."""
    assert is_reserved(namespace)


@pytest.mark.parametrize("namespace", ["vision", "kube", "kubeflow-team"])
def test_another_namespace_may_be_a_teams(namespace: str) -> None:
    assert not is_reserved(namespace)


def test_the_list_names_each_namespace_once() -> None:
    assert len(set(RESERVED_NAMESPACES)) == len(RESERVED_NAMESPACES)
