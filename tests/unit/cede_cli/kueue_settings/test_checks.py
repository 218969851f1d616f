"""Which settings of Kueue do not fit a policy, with the cure; and no file breaks the controller."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cede.api.objects import Json
from cede.api.policy import PolicySpec
from cede.kueue_settings.checks import verdict
from cede.kueue_settings.config import (
    CONFIG_KEY,
    KueueInstallation,
    feature_gates_of,
    parse,
    version_of,
)
from cede.kueue_settings.pods_ready import PodsReadySettings
from tests.paths import TREE

LOCAL_CONFIG_MAP = yaml.safe_load(
    (TREE / "deploy" / "local" / "kueue" / "settings.yaml").read_text()
)
LOCAL_CONFIG: str = LOCAL_CONFIG_MAP["data"][CONFIG_KEY]
V1BETA1_CONFIG = """apiVersion: config.kueue.x-k8s.io/v1beta1
waitForPodsReady: {enable: true, timeout: 10m, blockAdmission: false}
fairSharing: {enable: true, preemptionStrategies: [LessThanInitialShare]}
integrations: {frameworks: [batch/job]}
"""


def deployment(
    image: str = "registry.k8s.io/kueue/kueue:v0.19.2", args: tuple[str, ...] = (), **spec: object
) -> Json:
    """Kueue's Deployment."""
    manager = {
        "name": "manager",
        "image": image,
        "command": ["/manager"],
        "args": ["--zap-log-level=2", *args],
    }
    pod = {"containers": [{"name": "sidecar"}, manager]}
    return {"spec": {"template": {"spec": pod}, **spec}}


DEPLOYMENT = deployment()


def config_map(text: str = LOCAL_CONFIG) -> Json:
    """Kueue's ConfigMap with this configuration file."""
    return {"data": {CONFIG_KEY: text}}


def config_without(*keys: str, text: str = LOCAL_CONFIG, **changes: object) -> Json:
    """Kueue's ConfigMap without these sections and with these changed."""
    config = {k: v for k, v in yaml.safe_load(text).items() if k not in keys}
    return config_map(yaml.safe_dump(config | changes))


def test_the_settings_of_the_local_cluster_fit_a_policy() -> None:
    result = verdict(PolicySpec(), KueueInstallation(LOCAL_CONFIG_MAP, deployment()), {})
    assert (result.status, result.reason) == (True, "Configured")
    assert result.message.startswith(
        "Kueue 0.19.2 is configured as the policy needs; it queues batch/job, "
    )


@pytest.mark.parametrize(
    ("spec", "config", "kueue", "reason", "cure"),
    [
        pytest.param(
            {},
            config_without("fairSharing"),
            DEPLOYMENT,
            "FairSharingOff",
            "set fairSharing in",
            id="weights have no effect",
        ),
        pytest.param(
            {"idleCompute": "FirstCome"},
            config_map(),
            DEPLOYMENT,
            "FairSharingOn",
            "set idleCompute: FairShare",
            id="fair sharing despite FirstCome",
        ),
        pytest.param(
            {},
            config_map(V1BETA1_CONFIG.replace("{enable: true, timeout", "{enable: false, timeout")),
            DEPLOYMENT,
            "WaitForPodsReadyOff",
            "set waitForPodsReady",
            id="waitForPodsReady is off",
        ),
        pytest.param(
            {},
            config_without(
                waitForPodsReady={"timeout": "15m", "blockAdmission": True},
            ),
            DEPLOYMENT,
            "BlockAdmissionOn",
            "set it to false",
            id="nobody is admitted while there is a guard",
        ),
        pytest.param(
            {},
            config_without(waitForPodsReady={"timeout": "5m", "recoveryTimeout": "1m"}),
            DEPLOYMENT,
            "RecoveryTimeoutShort",
            "recoveryTimeout is 60 s",
            id="elastic jobs are evicted for one lost pod",
        ),
        pytest.param(
            {},
            config_without(waitForPodsReady={"timeout": "5m"}),
            DEPLOYMENT,
            "RecoveryTimeoutShort",
            "set it to 10m or more",
            id="the same by Kueue's default",
        ),
        pytest.param(
            {},
            config_without(text=V1BETA1_CONFIG, waitForPodsReady=None),
            DEPLOYMENT,
            "WaitForPodsReadyOff",
            "set waitForPodsReady",
            id="waitForPodsReady is null",
        ),
        pytest.param(
            {},
            config_map(V1BETA1_CONFIG.replace("{enable: true, pre", "{pre")),
            DEPLOYMENT,
            "FairSharingOff",
            "set fairSharing",
            id="v1beta1",
        ),
        pytest.param(
            {},
            config_without(featureGates={"ElasticJobsViaWorkloadSlices": False}),
            DEPLOYMENT,
            "ElasticSlicesOff",
            "remove it",
            id="gate in the file",
        ),
        pytest.param(
            {},
            config_map(),
            deployment(args=("--feature-gates=ElasticJobsViaWorkloadSlices=false",)),
            "ElasticSlicesOff",
            "remove it",
            id="gate on the command line",
        ),
        pytest.param(
            {"topology": ["rack"]},
            config_map(),
            DEPLOYMENT,
            "ElasticTopologyOff",
            "leave topology out",
            id="placement is lost",
        ),
        pytest.param(
            {},
            config_without(integrations={"frameworks": ["pod"]}),
            DEPLOYMENT,
            "JobsNotQueued",
            "batch/job",
            id="Jobs are not queued",
        ),
        pytest.param(
            {},
            config_without(integrations={"frameworks": ["batch/job"]}),
            DEPLOYMENT,
            "PodsNotQueued",
            "escape all quotas",
            id="pods are not queued",
        ),
        pytest.param(
            {},
            config_map(),
            deployment("kueue:v0.18.3"),
            "TooOld",
            "must be 0.19.2 or newer: upgrade",
            id="too old",
        ),
        pytest.param(
            {},
            config_map(),
            deployment(replicas=0),
            "NotRunning",
            "scale Deployment",
            id="scaled to 0",
        ),
    ],
)
def test_a_setting_that_does_not_fit_is_reported_with_its_cure(
    spec: Json, config: Json, kueue: Json, reason: str, cure: str
) -> None:
    result = verdict(PolicySpec.model_validate(spec), KueueInstallation(config, kueue), {})
    assert (result.status, result.reason) == (False, reason)
    assert cure in result.message


def test_with_its_feature_gate_elastic_jobs_may_have_a_topology() -> None:
    kueue = deployment(args=("--feature-gates=ElasticJobsViaWorkloadSlicesWithTAS=true",))
    result = verdict(PolicySpec(topology=["rack"]), KueueInstallation(config_map(), kueue), {})
    assert result.status is True


def test_all_problems_are_in_one_message() -> None:
    config = config_without("fairSharing", integrations={"frameworks": ["pod"]})
    result = verdict(PolicySpec(), KueueInstallation(config, deployment("kueue:0.1.0")), {})
    for fragment in ("must be 0.19.2", "set fairSharing", "batch/job"):
        assert fragment in result.message


@pytest.mark.parametrize(
    ("config", "kueue", "error", "reason"),
    [
        pytest.param(config_map(), None, "", "DeploymentNotFound", id="no Deployment"),
        pytest.param(None, DEPLOYMENT, "", "ConfigMapNotFound", id="no ConfigMap"),
        pytest.param(config_map("a: ["), DEPLOYMENT, "", "Unreadable", id="no YAML"),
        pytest.param(config_map("[]"), DEPLOYMENT, "", "Unreadable", id="no object"),
        pytest.param(
            config_map("!!int ''"), DEPLOYMENT, "", "Unreadable", id="a tag that PyYAML rejects"
        ),
        pytest.param(None, None, "403 Forbidden: no", "Unreadable", id="no right to read"),
    ],
)
def test_settings_that_cannot_be_read_are_unknown(
    config: Json | None, kueue: Json | None, error: str, reason: str
) -> None:
    result = verdict(PolicySpec(), KueueInstallation(config, kueue, error), {})
    assert (result.status, result.reason) == (None, reason)
    assert error in result.message


def test_defaults_are_those_of_kueue() -> None:
    config = parse("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    assert config.pods_ready == PodsReadySettings(1800, 1800)
    assert config.fair_sharing is False
    assert config.feature_gates == {}
    assert config.frameworks == ("batch/job",)


KEYS = [
    "apiVersion",
    "waitForPodsReady",
    "fairSharing",
    "featureGates",
    "integrations",
    "frameworks",
    "enable",
    "managedJobsNamespaceSelector",
    "matchLabels",
    "matchExpressions",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=4),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(KEYS), inner),
)


@given(st.text() | VALUES.map(yaml.safe_dump))
def test_every_file_has_a_verdict(text: str) -> None:
    result = verdict(PolicySpec(), KueueInstallation(config_map(text), DEPLOYMENT), {})
    assert result.status in (True, False, None)
    assert result.message


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("registry.k8s.io/kueue/kueue:v0.19.2", (0, 19, 2)),
        ("localhost:5000/kueue:0.20.0-rc.1", (0, 20, 0)),
        ("kueue:v0.19.2@sha256:0123", (0, 19, 2)),
        ("kueue@sha256:0123", None),
        ("localhost:5000/kueue", None),
        ("kueue:main", None),
        ("", None),
    ],
)
def test_the_version_is_the_image_tag(image: str, expected: tuple[int, ...] | None) -> None:
    assert version_of(image) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), {}),
        (("--feature-gates=A=true,B=false",), {"A": True, "B": False}),
        (("--feature-gates", "A=False"), {"A": False}),
    ],
)
def test_feature_gates_of_the_command_line(
    args: tuple[str, ...], expected: dict[str, bool]
) -> None:
    assert feature_gates_of(deployment(args=args)) == expected
