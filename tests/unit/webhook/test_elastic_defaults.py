"""What an elastic Job and its pods get, and what an update by its user cannot undo."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from cede.api.objects import Json
from elastic_runtime import contract
from tests.builders.jobs import TEAM, elastic_job, running_job
from webhook.admission import AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.failure_policy import NO_LIMIT
from webhook.team import Team

OWN_RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}


def create(job: Json, team: Team = TEAM) -> Json:
    return apply_defaults(AdmissionRequest(job, team=team))


def update(old: Json, new: Json, team: Team = TEAM) -> Json:
    return apply_defaults(AdmissionRequest(new, old, "ada", team))


def pod_of(job: Json) -> Json:
    pod: Json = job["spec"]["template"]["spec"]
    return pod


def env_of(container: Json) -> dict[str, Any]:
    return {
        variable["name"]: variable.get("value", variable.get("valueFrom"))
        for variable in container.get("env", [])
    }


# --- a new job ------------------------------------------------------------------------------------
def test_a_job_starts_at_its_smallest_size_with_its_desired_size_noted() -> None:
    after = create(elastic_job(8, "2-8"))
    assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (2, 2)
    assert after["metadata"]["annotations"] == {
        "cede.dev/sizes": "2-8",
        "cede.dev/desired-size": "8",
        "kueue.x-k8s.io/elastic-job": "true",
    }


def test_the_pods_get_the_settings_that_the_runtime_needs() -> None:
    after = create(elastic_job(8, "2-8/2"))
    pod = pod_of(after)
    assert after["spec"]["template"]["metadata"]["labels"] == {"cede.dev/elastic": "true"}
    assert pod["subdomain"] == "cede-peers"
    (container,) = pod["containers"]
    env = env_of(container)
    assert env[contract.SIZES_ENV] == "2,4,6,8"
    assert env[contract.RANKS_ENV] == "1"
    assert env[contract.GRACE_ENV] == "60"
    assert env[contract.PORT_ENV] == "8476"
    assert env[contract.PEERS_ENV] == "cede-peers"
    assert env[contract.POD_IP_ENV]["fieldRef"]["fieldPath"] == "status.podIP"
    assert (
        env[contract.JOB_UID_ENV]["fieldRef"]["fieldPath"]
        == "metadata.labels['batch.kubernetes.io/controller-uid']"
    )
    assert env[contract.KEY_FILE_ENV] == f"{container['volumeMounts'][0]['mountPath']}/key"
    # Kubernetes sets it
    assert contract.INDEX_ENV not in env
    assert pod["volumes"][0]["secret"]["secretName"] == "cede-control"


@pytest.mark.parametrize(
    ("pod", "mounts"),
    [
        pytest.param({}, False, id="training needs none"),
        pytest.param({"automountServiceAccountToken": True}, True, id="its user asks for it"),
        pytest.param({"serviceAccountName": "reader"}, None, id="an account of its own"),
    ],
)
def test_the_pods_get_no_token_of_the_api_server(pod: Json, mounts: bool | None) -> None:
    created = create(elastic_job(pod=pod))
    assert pod_of(created).get("automountServiceAccountToken") is mounts
    live = running_job(elastic_job(pod=pod), 4)
    replaced = update(live, elastic_job(pod=pod))
    assert pod_of(replaced).get("automountServiceAccountToken") is mounts, "a template stays as is"


def test_a_failure_policy_that_ignores_leavers_and_lost_nodes_is_added() -> None:
    spec = create(elastic_job(podFailurePolicy={"rules": [OWN_RULE]}))["spec"]
    first, _, own = spec["podFailurePolicy"]["rules"]
    assert first["onExitCodes"]["containerName"] == "train"
    assert own == OWN_RULE
    # the only value that Kubernetes allows together with a podFailurePolicy
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["backoffLimitPerIndex"] == NO_LIMIT
    assert spec["template"]["metadata"]["annotations"] == {"cede.dev/short-back-off": "true"}


def test_an_update_keeps_the_failure_policy_that_the_job_was_created_with() -> None:
    """Kubernetes refuses any change of it, also that by a newer version of the webhook."""
    old = running_job(elastic_job(8), 3)
    old["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] = [43]
    del old["spec"]["backoffLimitPerIndex"], old["spec"]["template"]["metadata"]["annotations"]
    assert update(old, deepcopy(old)) == old


@pytest.mark.parametrize(
    ("annotation", "own_grace_s", "runtime_grace", "pod_grace_s"),
    [
        pytest.param(None, 30, "60", 60, id="of the policy"),
        pytest.param("90s", 30, "90", 90, id="of the job"),
        pytest.param("90s", 300, "90", 300, id="the pod's own grace is longer"),
        pytest.param("1h", 30, "600", 600, id="limited by the policy"),
    ],
)
def test_the_grace(
    annotation: str | None, own_grace_s: int, runtime_grace: str, pod_grace_s: int
) -> None:
    annotations = {"cede.dev/grace": annotation} if annotation else {}
    job = elastic_job(annotations=annotations, pod={"terminationGracePeriodSeconds": own_grace_s})
    pod = pod_of(create(job))
    assert env_of(pod["containers"][0])[contract.GRACE_ENV] == runtime_grace
    assert pod["terminationGracePeriodSeconds"] == pod_grace_s


@pytest.mark.parametrize(
    ("containers", "chosen", "ranks"),
    [
        pytest.param(
            [("a", {}), ("b", {})], "a", "1", id="none with accelerators: the first, one rank"
        ),
        pytest.param(
            [("log", {}), ("b", {"nvidia.com/gpu": "4"})],
            "b",
            "4",
            id="the one with accelerators, a rank for each",
        ),
        pytest.param([("a", {"nvidia.com/mig-1g.10gb": 2})], "a", "2", id="partitions"),
        pytest.param(
            [("a", {}), ("b", {"amd.com/gpu": "8"})], "b", "8", id="accelerators of the policy"
        ),
        pytest.param(
            [("a", {"example.com/fpga": "8"})], "a", "1", id="not an accelerator of the policy"
        ),
    ],
)
def test_only_the_training_container_gets_the_environment(
    containers: list[tuple[str, Json]], chosen: str, ranks: str
) -> None:
    team = replace(TEAM, accelerators=frozenset({"nvidia.com/gpu", "amd.com/gpu"}))
    pod = {
        "containers": [
            {"name": name, "resources": {"limits": limits}} for name, limits in containers
        ]
    }
    for container in pod_of(create(elastic_job(pod=pod), team))["containers"]:
        expected = ranks if container["name"] == chosen else None
        assert env_of(container).get(contract.RANKS_ENV) == expected


def test_only_fields_with_our_names_are_overwritten() -> None:
    env = [
        {"name": "LR", "value": "1"},
        {"name": contract.SIZES_ENV, "value": "1"},
        {"name": "ME", "value": "$(CEDE_JOB)"},
    ]
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": contract.KEY_MOUNT},
    ]
    own_pod = {
        "containers": [{"name": "train", "env": env, "volumeMounts": mounts}],
        "volumes": [{"name": "data", "emptyDir": {}}],
        "nodeSelector": {"a": "b"},
    }
    pod = pod_of(create(elastic_job(pod=own_pod)))
    (container,) = pod["containers"]
    names = [variable["name"] for variable in container["env"]]
    # the user's variables come last, so that they can refer to ours
    assert names[-3:-1] == ["LR", "ME"]
    assert names.count(contract.SIZES_ENV) == 1
    assert env_of(container)[contract.SIZES_ENV] == "2,3,4,5,6,7,8"
    mount_paths = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert mount_paths == ["/data", contract.KEY_MOUNT]
    assert [volume["name"] for volume in pod["volumes"]] == ["data", "cede-control"]
    assert pod["nodeSelector"] == {"a": "b"}


def test_the_yaml_of_a_live_job_created_again_keeps_its_desired_size() -> None:
    copied = running_job(elastic_job(8, "2-8"), 5)
    assert create(copied)["metadata"]["annotations"]["cede.dev/desired-size"] == "8"
    assert create(copied)["spec"]["parallelism"] == 2


# --- an update ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "change",
    [{"parallelism": 6}, {"completions": 6}, {"parallelism": 6, "completions": 6}],
    ids=["parallelism", "completions", "both"],
)
def test_a_number_set_by_a_person_is_the_desired_size(change: Json) -> None:
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["spec"] |= change
    after = update(old, new)
    assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (4, 4)
    assert after["metadata"]["annotations"]["cede.dev/desired-size"] == "6"


def test_applying_the_same_file_again_undoes_nothing() -> None:
    """`kubectl apply` sends what differs from the file: the numbers, the grace, and the list of
    failure rules, which is atomic."""
    old = running_job(elastic_job(8, podFailurePolicy={"rules": [OWN_RULE]}), 3)
    sent = deepcopy(old)
    sent["spec"] |= {"parallelism": 8, "completions": 8, "podFailurePolicy": {"rules": [OWN_RULE]}}
    pod_of(sent)["terminationGracePeriodSeconds"] = 30
    assert update(old, sent) == old


def test_kubectl_replace_with_the_users_file_undoes_nothing() -> None:
    file = elastic_job(8, pod={"nodeSelector": {"zone": "a"}})
    old = running_job(file, 3)
    old["metadata"]["annotations"]["cede.dev/shrunk-at"] = "2026-01-01T00:00:00Z"
    old["spec"] |= {
        "suspend": False,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1234"}},
    }
    # Kueue added these when it started the job
    pod_of(old)["nodeSelector"]["node.kubernetes.io/instance-type"] = "p5"
    pod_of(old)["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    pod_of(old)["schedulingGates"] = [{"name": "kueue.x-k8s.io/elastic-job"}]
    old["spec"]["template"]["metadata"]["annotations"]["kueue.x-k8s.io/workload"] = "w"
    file["spec"]["suspend"] = True
    assert update(old, deepcopy(file)) == old


@pytest.mark.parametrize("left", [{}, {"cede.dev/surplus-of": ""}])
def test_a_surplus_stays_one(left: Json) -> None:
    """Its pods know their base, and cannot be changed."""
    file = elastic_job(8)
    file["metadata"]["annotations"]["cede.dev/surplus-of"] = "js/gpt-node-0/child/2"
    old = running_job(file, 3)
    sent = deepcopy(old)
    del sent["metadata"]["annotations"]["cede.dev/surplus-of"]
    sent["metadata"]["annotations"] |= left
    assert update(old, sent) == old


@pytest.mark.parametrize("before", ["", "2026-01-01T00:00:00Z"])
@pytest.mark.parametrize("after", ["", "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"])
def test_only_the_scheduler_notes_when_a_job_shrank(before: str, after: str) -> None:
    old = running_job(elastic_job(), 3)
    new = deepcopy(old)
    for job, text in ((old, before), (new, after)):
        if text:
            job["metadata"]["annotations"]["cede.dev/shrunk-at"] = text
    assert update(old, new) == old


def test_a_change_of_the_template_is_left_for_the_api_server_to_refuse() -> None:
    old = running_job(elastic_job(), 3)
    file = elastic_job()
    pod_of(file)["containers"][0]["image"] = "other"
    assert pod_of(update(old, file))["containers"][0]["image"] == "other"


def test_kueue_may_start_and_stop_the_job() -> None:
    stopped = running_job(elastic_job(), 3)
    started = deepcopy(stopped)
    started["spec"]["suspend"] = False
    pod_of(started)["nodeSelector"] = {"node.kubernetes.io/instance-type": "p5"}
    assert update(stopped, started) == started
    assert update(started, stopped) == stopped


def test_a_policy_that_has_changed_does_not_change_the_template() -> None:
    old = running_job(elastic_job(), 3)
    other = replace(TEAM, grace_s=300, accelerators=frozenset())
    new = deepcopy(old)
    new["metadata"]["annotations"] |= {"note": "mine", "cede.dev/sizes": "1-8"}
    assert update(old, new, other) == new
