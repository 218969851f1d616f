"""In which namespaces Kueue queues jobs, and whether guards are among them."""

import pytest
import yaml

from cede.api.objects import Json
from cede.api.policy import PolicySpec
from cede.kueue_settings.checks import verdict
from cede.kueue_settings.config import CONFIG_KEY, KueueInstallation
from cede.kueue_settings.managed_namespaces import guard_labels, selects

NAME = {"kubernetes.io/metadata.name": "cede-guard"}
QUEUED = {"matchLabels": {"queued": "yes"}}
LABELS = NAME | {"team": "none"}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        pytest.param({}, True, id="no selector"),
        pytest.param({"matchLabels": {"team": "none"}}, True, id="label"),
        pytest.param({"matchLabels": {"team": "a"}}, False, id="another value"),
        pytest.param({"matchLabels": {"queued": "yes"}}, False, id="no such label"),
        pytest.param(
            {
                "matchExpressions": [
                    {
                        "key": "kubernetes.io/metadata.name",
                        "operator": "NotIn",
                        "values": ["kube-system", "kueue-system"],
                    }
                ]
            },
            True,
            id="as Kueue's default",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "queued", "operator": "Exists"}]}, False, id="exists"
        ),
        pytest.param(
            {
                "matchLabels": {"team": "none"},
                "matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}],
            },
            False,
            id="both must match",
        ),
        pytest.param({"matchExpressions": ["team"]}, False, id="no expression"),
    ],
)
def test_a_namespace_is_selected_by_its_labels(selector: Json, expected: bool) -> None:
    assert selects(selector, LABELS) is expected


def test_the_namespace_of_guards_has_its_name_and_what_an_administrator_adds() -> None:
    assert guard_labels({}) == NAME
    labelled = {"metadata": {"name": "cede-guard", "labels": {"queued": "yes"}}}
    assert guard_labels(labelled) == NAME | {"queued": "yes"}


def message(labels: dict[str, str], *, gate: bool = True, **config: Json) -> str:
    """What the condition KueueConfigured says."""
    config_map = {"data": {CONFIG_KEY: yaml.safe_dump(config)}}
    flag = f"--feature-gates=ManagedJobsNamespaceSelectorAlwaysRespected={str(gate).lower()}"
    manager = {"name": "manager", "args": [flag]}
    deployment = {"spec": {"template": {"spec": {"containers": [manager]}}}}
    return verdict(PolicySpec(), KueueInstallation(config_map, deployment), labels).message


def test_a_selector_that_leaves_out_guards_is_reported_with_its_cure() -> None:
    complaint = "does not select namespace cede-guard"
    assert complaint not in message(NAME)
    assert complaint in message(NAME, managedJobsNamespaceSelector=QUEUED)
    assert "label the namespace" in message(NAME, managedJobsNamespaceSelector=QUEUED)
    labelled = NAME | {"queued": "yes"}
    assert complaint not in message(labelled, managedJobsNamespaceSelector=QUEUED)
    # without the gate Kueue queues every job that names a queue
    assert complaint not in message(NAME, gate=False, managedJobsNamespaceSelector=QUEUED)
