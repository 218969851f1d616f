"""What Kueue's own configuration must say, and what is told when it does not."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cede.api.objects import Json
from cede.api.policy import PolicySpec
from quota_controller.status.kueue_config import (
    CONFIG_KEY,
    Kueue,
    gates_of,
    parse,
    verdict,
    version_of,
)
from tests.paths import TREE

LOCAL = yaml.safe_load((TREE / "deploy" / "local" / "kueue" / "settings.yaml").read_text())
TEXT: str = LOCAL["data"][CONFIG_KEY]
OLD = """apiVersion: config.kueue.x-k8s.io/v1beta1
waitForPodsReady: {enable: true, timeout: 5m}
fairSharing: {enable: true, preemptionStrategies: [LessThanInitialShare]}
integrations: {frameworks: [batch/job]}
"""


def deployment(
    image: str = "registry.k8s.io/kueue/kueue:v0.19.2", args: tuple[str, ...] = (), **spec: object
) -> Json:
    containers = [
        {"name": "side"},
        {
            "name": "manager",
            "image": image,
            "command": ["/manager"],
            "args": ["--zap-log-level=2", *args],
        },
    ]
    return {"spec": {"template": {"spec": {"containers": containers}}, **spec}}


THERE = deployment()


def settings(text: str = TEXT) -> Json:
    return {"data": {CONFIG_KEY: text}}


def without(*keys: str, text: str = TEXT, **more: object) -> Json:
    found = {k: v for k, v in yaml.safe_load(text).items() if k not in keys}
    return settings(yaml.safe_dump(found | more))


def test_the_settings_we_test_with_are_as_a_policy_wants_them() -> None:
    right, reason, sentence = verdict(PolicySpec(), Kueue(LOCAL, deployment()))
    assert (right, reason) == (True, "AsThePolicyWants")
    assert sentence.startswith("Kueue 0.19.2 is set as the policy wants; it queues batch/job, ")


@pytest.mark.parametrize(
    ("spec", "found", "there", "reason", "cure"),
    [
        pytest.param(
            {},
            without("fairSharing"),
            THERE,
            "FairSharingOff",
            "set fairSharing in",
            id="weights without effect",
        ),
        pytest.param(
            {"idleCompute": "FirstCome"},
            settings(),
            THERE,
            "FairSharingOn",
            "set idleCompute: FairShare",
            id="by share",
        ),
        pytest.param(
            {},
            settings(OLD.replace("{enable: true, timeout", "{enable: false, timeout")),
            THERE,
            "WaitForPodsReadyOff",
            "set waitForPodsReady",
            id="gangs for ever",
        ),
        pytest.param(
            {},
            without(text=OLD, waitForPodsReady=None),
            THERE,
            "WaitForPodsReadyOff",
            "set waitForPodsReady",
            id="null",
        ),
        pytest.param(
            {},
            settings(OLD.replace("{enable: true, pre", "{pre")),
            THERE,
            "FairSharingOff",
            "set fairSharing",
            id="v1beta1",
        ),
        pytest.param(
            {},
            without(featureGates={"ElasticJobsViaWorkloadSlices": False}),
            THERE,
            "ElasticSlicesOff",
            "remove it",
            id="gate in the file",
        ),
        pytest.param(
            {},
            settings(),
            deployment(args=("--feature-gates=ElasticJobsViaWorkloadSlices=false",)),
            "ElasticSlicesOff",
            "remove it",
            id="gate on the command line",
        ),
        pytest.param(
            {"topology": ["rack"]},
            settings(),
            THERE,
            "ElasticTopologyOff",
            "leave topology out",
            id="placed anew at each size",
        ),
        pytest.param(
            {},
            without(integrations={"frameworks": ["pod"]}),
            THERE,
            "JobsNotQueued",
            "batch/job",
            id="no jobs",
        ),
        pytest.param(
            {},
            without(integrations={"frameworks": ["batch/job"]}),
            THERE,
            "PodsNotQueued",
            "past every quota",
            id="no pods",
        ),
        pytest.param(
            {},
            settings(),
            deployment("kueue:v0.18.3"),
            "TooOld",
            "must be 0.19.2 or newer: upgrade",
            id="too old",
        ),
        pytest.param(
            {},
            settings(),
            deployment(replicas=0),
            "NotRunning",
            "scale Deployment",
            id="scaled to 0",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_cure(
    spec: Json, found: Json, there: Json, reason: str, cure: str
) -> None:
    right, why, sentence = verdict(PolicySpec.model_validate(spec), Kueue(found, there))
    assert (right, why) == (False, reason)
    assert cure in sentence


def test_with_its_gate_on_elastic_jobs_may_have_a_topology() -> None:
    gates = deployment(args=("--feature-gates=ElasticJobsViaWorkloadSlicesWithTAS=true",))
    assert verdict(PolicySpec(topology=["rack"]), Kueue(settings(), gates))[0] is True


def test_all_that_is_wrong_is_said_at_once() -> None:
    _, _, sentence = verdict(
        PolicySpec(),
        Kueue(
            without("fairSharing", integrations={"frameworks": ["pod"]}), deployment("kueue:0.1.0")
        ),
    )
    assert all(part in sentence for part in ("must be 0.19.2", "set fairSharing", "batch/job"))


@pytest.mark.parametrize(
    ("found", "there", "trouble", "reason"),
    [
        pytest.param(settings(), None, "", "NotFound", id="Kueue is elsewhere or not at all"),
        pytest.param(None, THERE, "", "NoSettings", id="no ConfigMap"),
        pytest.param(settings("a: ["), THERE, "", "Unreadable", id="no YAML"),
        pytest.param(settings("[]"), THERE, "", "Unreadable", id="no object"),
        pytest.param(
            settings("!!int ''"), THERE, "", "Unreadable", id="YAML its parser stumbles on"
        ),
        pytest.param(None, None, "403 Forbidden: no", "Unreadable", id="not allowed to look"),
    ],
)
def test_what_cannot_be_known_is_said_plainly(
    found: Json | None, there: Json | None, trouble: str, reason: str
) -> None:
    right, why, sentence = verdict(PolicySpec(), Kueue(found, there, trouble))
    assert (right, why) == (None, reason)
    assert trouble in sentence


def test_defaults_are_kueues() -> None:
    found = parse("apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n")
    assert (found.waits_for_pods, found.fair_sharing, found.gates, found.frameworks) == (
        True,
        False,
        {},
        ("batch/job",),
    )


@given(
    st.text()
    | st.recursive(
        st.none() | st.booleans() | st.text(max_size=4),
        lambda one: (
            st.lists(one)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "apiVersion",
                        "waitForPodsReady",
                        "fairSharing",
                        "featureGates",
                        "integrations",
                        "frameworks",
                        "enable",
                    ]
                ),
                one,
            )
        ),
    ).map(yaml.safe_dump)
)
def test_no_file_brings_us_down(text: str) -> None:
    right, _, sentence = verdict(PolicySpec(), Kueue(settings(text), THERE))
    assert right in (True, False, None)
    assert sentence


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
def test_the_version_is_the_tags(image: str, expected: tuple[int, ...] | None) -> None:
    assert version_of(image) == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((), {}),
        (("--feature-gates=A=true,B=false",), {"A": True, "B": False}),
        (("--feature-gates", "A=False"), {"A": False}),
    ],
)
def test_gates_of_the_command_line(args: tuple[str, ...], expected: dict[str, bool]) -> None:
    assert gates_of(deployment(args=args)) == expected
