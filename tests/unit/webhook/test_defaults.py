"""What we add for a job, and what a user's later words may not undo."""

import json
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.api.objects import Json
from elastic_runtime import contract
from tests.builders.jobs import PRIORITY, QUEUE, TEAM, elastic_job, plain_job, running_job
from tests.fakes.patches import json_patch
from webhook.admission import SCHEDULER_USER, AdmissionRequest
from webhook.defaults import apply_defaults
from webhook.json_patch import create_patch
from webhook.rules import complaints
from webhook.team import Team


def made(job: Json, team: Team = TEAM) -> Json:
    return apply_defaults(AdmissionRequest(job, team=team))


def changed(old: Json, new: Json, user: str = "ada", team: Team = TEAM) -> Json:
    return apply_defaults(AdmissionRequest(new, old, user, team))


def pod_of(job: Json) -> Json:
    found: Json = job["spec"]["template"]["spec"]
    return found


def env_of(container: Json) -> dict[str, Any]:
    return {
        each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", [])
    }


# --- every kind -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "kind", [("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet"), ("ray.io/v1", "RayJob")]
)
def test_a_plain_job_of_any_kind_gets_queue_and_priority_and_nothing_else(
    kind: tuple[str, str],
) -> None:
    job = plain_job() | {"apiVersion": kind[0], "kind": kind[1]}
    after = made(job)
    assert after["metadata"]["labels"] == {QUEUE: "default", PRIORITY: "training"}
    assert after["spec"] == job["spec"]


def test_what_the_user_says_stays() -> None:
    labels = {QUEUE: "night", PRIORITY: "sweep"}
    assert made(plain_job(labels=labels))["metadata"]["labels"] == labels


@pytest.mark.parametrize(
    ("team", "label"),
    [
        pytest.param(
            replace(TEAM, max_class="sweep"),
            "sweep",
            id="the default is above the ceiling: the highest allowed",
        ),
        pytest.param(replace(TEAM, default_class=""), None, id="no default"),
        pytest.param(Team(name="vision"), None, id="no policy yet"),
    ],
)
def test_the_default_class(team: Team, label: str | None) -> None:
    assert made(plain_job(), team)["metadata"]["labels"].get(PRIORITY) == label


def test_a_running_job_is_given_no_label_it_did_not_have() -> None:
    """Kueue refuses a priority that is added to a running job, and a queue that changes."""
    assert changed(plain_job(), plain_job()) == plain_job()
    old = plain_job(labels={QUEUE: "night", PRIORITY: "sweep"})
    assert changed(old, plain_job())["metadata"]["labels"] == old["metadata"]["labels"]


# --- elastic Jobs, created ------------------------------------------------------------------------
def test_an_elastic_job_starts_at_its_smallest_size_and_notes_what_its_user_wants() -> None:
    after = made(elastic_job(8, "2-8"))
    assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (2, 2)
    assert after["metadata"]["annotations"] == {
        "cede.dev/sizes": "2-8",
        "cede.dev/desired-size": "8",
        "kueue.x-k8s.io/elastic-job": "true",
    }


def test_the_pods_are_told_what_the_runtime_needs() -> None:
    after = made(elastic_job(8, "2-8/2"))
    pod = pod_of(after)
    template = after["spec"]["template"]
    assert template["metadata"]["labels"] == {"cede.dev/elastic": "true"}
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


def test_a_leaver_is_no_failure_and_the_users_own_rules_follow() -> None:
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    spec = made(elastic_job(podFailurePolicy={"rules": [own]}))["spec"]
    left, moved, last = spec["podFailurePolicy"]["rules"]
    assert left["onExitCodes"] == {"containerName": "train", "operator": "In", "values": [43]}
    assert moved["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert last == own
    # Kubernetes allows no other beside a podFailurePolicy
    assert spec["podReplacementPolicy"] == "Failed"


@pytest.mark.parametrize(
    ("annotation", "own", "told", "until_killed"),
    [
        pytest.param(None, 30, "60", 60, id="the policy's"),
        pytest.param("90s", 30, "90", 90, id="the job's"),
        pytest.param("90s", 300, "90", 300, id="a longer termination grace stays"),
        pytest.param("1h", 30, "600", 600, id="capped by the policy"),
    ],
)
def test_the_grace(annotation: str | None, own: int, told: str, until_killed: int) -> None:
    notes = {"cede.dev/grace": annotation} if annotation else {}
    pod = pod_of(made(elastic_job(annotations=notes, pod={"terminationGracePeriodSeconds": own})))
    assert env_of(pod["containers"][0])[contract.GRACE_ENV] == told
    assert pod["terminationGracePeriodSeconds"] == until_killed


@pytest.mark.parametrize(
    ("containers", "chosen", "ranks"),
    [
        pytest.param([("a", {}), ("b", {})], "a", "1", id="none asks: the first, one rank"),
        pytest.param(
            [("log", {}), ("b", {"nvidia.com/gpu": "4"})],
            "b",
            "4",
            id="the one that asks, a rank for each",
        ),
        pytest.param([("a", {"nvidia.com/mig-1g.10gb": 2})], "a", "2", id="partitions"),
        pytest.param(
            [("a", {}), ("b", {"amd.com/gpu": "8"})], "b", "8", id="the policy's other accelerators"
        ),
        pytest.param(
            [("a", {"example.com/fpga": "8"})], "a", "1", id="no accelerator of the policy's"
        ),
    ],
)
def test_the_environment_goes_into_the_training_container_only(
    containers: list[tuple[str, Json]], chosen: str, ranks: str
) -> None:
    team = replace(TEAM, accelerators=frozenset({"nvidia.com/gpu", "amd.com/gpu"}))
    pod = {
        "containers": [
            {"name": name, "resources": {"limits": limits}} for name, limits in containers
        ]
    }
    for container in pod_of(made(elastic_job(pod=pod), team))["containers"]:
        assert env_of(container).get(contract.RANKS_ENV) == (
            ranks if container["name"] == chosen else None
        )


def test_names_of_ours_are_ours_and_all_else_is_the_users() -> None:
    env = [
        {"name": "LR", "value": "1"},
        {"name": contract.SIZES_ENV, "value": "1"},
        {"name": "ME", "value": "$(CEDE_JOB)"},
    ]
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "data", "mountPath": contract.KEY_MOUNT},
    ]
    container = {"name": "train", "env": env, "volumeMounts": mounts}
    pod = pod_of(
        made(
            elastic_job(
                pod={
                    "containers": [container],
                    "volumes": [{"name": "data", "emptyDir": {}}],
                    "nodeSelector": {"a": "b"},
                }
            )
        )
    )
    names = [each["name"] for each in pod["containers"][0]["env"]]
    # after ours, so that they can refer to them
    assert names[-2:] == ["LR", "ME"]
    assert names.count(contract.SIZES_ENV) == 1
    assert env_of(pod["containers"][0])[contract.SIZES_ENV] == "2,3,4,5,6,7,8"
    assert [m["mountPath"] for m in pod["containers"][0]["volumeMounts"]] == [
        "/data",
        contract.KEY_MOUNT,
    ]
    assert [v["name"] for v in pod["volumes"]] == ["data", "cede-control"]
    assert pod["nodeSelector"] == {"a": "b"}


def test_a_live_jobs_yaml_created_anew_keeps_its_wish() -> None:
    copied = running_job(elastic_job(8, "2-8"), 5)
    assert made(copied)["metadata"]["annotations"]["cede.dev/desired-size"] == "8"
    assert made(copied)["spec"]["parallelism"] == 2


# --- elastic Jobs, changed ------------------------------------------------------------------------
@pytest.mark.parametrize(
    "words",
    [{"parallelism": 6}, {"completions": 6}, {"parallelism": 6, "completions": 6}],
    ids=["parallelism", "completions", "both"],
)
def test_a_number_set_by_a_person_is_a_wish(words: Json) -> None:
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["spec"] |= words
    after = changed(old, new)
    assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (4, 4)
    assert after["metadata"]["annotations"]["cede.dev/desired-size"] == "6"


def test_the_scheduler_resizes() -> None:
    old = running_job(elastic_job(), 4)
    new = deepcopy(old)
    new["spec"] |= {"parallelism": 2, "completions": 2}
    assert changed(old, new, SCHEDULER_USER) == new


def test_applying_the_same_file_again_undoes_nothing() -> None:
    """`kubectl apply` sends what differs from the file: the numbers, the grace, the atomic list of
    failure rules."""
    own = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [2]}}
    file = elastic_job(8, podFailurePolicy={"rules": [own]})
    old = running_job(file, 3)
    sent = deepcopy(old)
    sent["spec"] |= {"parallelism": 8, "completions": 8, "podFailurePolicy": {"rules": [own]}}
    pod_of(sent)["terminationGracePeriodSeconds"] = 30
    assert changed(old, sent) == old


def test_kubectl_replace_by_the_users_own_file_undoes_nothing() -> None:
    file = elastic_job(8, pod={"nodeSelector": {"zone": "a"}})
    old = running_job(file, 3)
    old["metadata"]["annotations"]["cede.dev/shrunk-at"] = "2026-01-01T00:00:00Z"
    old["spec"] |= {
        "suspend": False,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1234"}},
    }
    # Kueue, when it started the job
    pod_of(old)["nodeSelector"]["node.kubernetes.io/instance-type"] = "p5"
    pod_of(old)["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    pod_of(old)["schedulingGates"] = [{"name": "kueue.x-k8s.io/elastic-job"}]
    old["spec"]["template"]["metadata"]["annotations"] = {"kueue.x-k8s.io/workload": "w"}
    file["spec"]["suspend"] = True
    assert changed(old, deepcopy(file)) == old


def test_what_the_user_does_change_in_the_template_is_left_for_the_api_server_to_refuse() -> None:
    old = running_job(elastic_job(), 3)
    file = elastic_job()
    pod_of(file)["containers"][0]["image"] = "other"
    assert pod_of(changed(old, file))["containers"][0]["image"] == "other"


def test_kueue_may_start_and_stop_the_job() -> None:
    stopped = running_job(elastic_job(), 3)
    started = deepcopy(stopped)
    started["spec"]["suspend"] = False
    pod_of(started)["nodeSelector"] = {"node.kubernetes.io/instance-type": "p5"}
    assert changed(stopped, started) == started
    assert changed(started, stopped) == stopped


def test_a_policy_that_has_changed_since_does_not_touch_the_template() -> None:
    old = running_job(elastic_job(), 3)
    other = replace(TEAM, grace_s=300, accelerators=frozenset())
    new = deepcopy(old)
    new["metadata"]["annotations"] |= {"note": "mine", "cede.dev/sizes": "1-8"}
    assert changed(old, new, team=other) == new


# --- properties -----------------------------------------------------------------------------------
NAMES = st.text(max_size=6) | st.sampled_from(["a/b", "~", "a~1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5000) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
TEXTS = st.dictionaries(
    st.sampled_from(
        [
            "cede.dev/sizes",
            "cede.dev/grace",
            "cede.dev/desired-size",
            "kueue.x-k8s.io/elastic-job",
            QUEUE,
            PRIORITY,
        ]
    ),
    st.sampled_from(["2-8", "1,2,4", "8", "true", "9s", "training", "default", ""])
    | st.text(max_size=6),
)
NUMBER = st.sampled_from([None, 0, 1, 2, 4, 8, True, "8", 2.0, -1])


@st.composite
def jobs(draw: st.DrawFn) -> Json:
    """Jobs of which any part may be anything."""
    container = st.fixed_dictionaries(
        {},
        optional={
            "name": st.just("a") | JSON,
            "env": JSON,
            "resources": JSON,
            "volumeMounts": JSON,
        },
    )
    pod = st.fixed_dictionaries(
        {"containers": st.lists(container, min_size=1, max_size=2) | JSON},
        optional={
            "restartPolicy": st.just("Never"),
            "volumes": JSON,
            "terminationGracePeriodSeconds": JSON,
            "tolerations": JSON,
        },
    )
    template = st.fixed_dictionaries({"spec": pod | JSON}, optional={"metadata": JSON})
    spec = st.fixed_dictionaries(
        {"parallelism": NUMBER, "completions": NUMBER, "template": template | JSON},
        optional={"completionMode": st.just("Indexed"), "podFailurePolicy": JSON},
    )
    meta = st.fixed_dictionaries(
        {}, optional={"labels": TEXTS, "annotations": TEXTS, "ownerReferences": JSON}
    )
    kind = st.sampled_from(
        [{"apiVersion": "batch/v1", "kind": "Job"}, {"apiVersion": "ray.io/v1", "kind": "RayJob"}]
    )
    return draw(kind) | {"metadata": draw(meta), "spec": draw(spec | JSON)}


@settings(deadline=None)
@given(jobs(), st.none() | jobs())
def test_no_object_is_too_strange_and_doing_it_twice_changes_nothing(
    job: Json, old: Json | None
) -> None:
    asked = AdmissionRequest(job, old, "ada", TEAM)
    before = json.dumps(job)
    if complaints(asked):
        return
    once = apply_defaults(asked)
    assert json.dumps(job) == before
    assert complaints(replace(asked, object=once)) == []
    assert apply_defaults(replace(asked, object=once)) == once


@given(
    st.fixed_dictionaries(
        {"size": st.sampled_from([2, 4, 8]), "sizes": st.sampled_from(["1-8", "2,4,8", "2-8/2"])}
    ),
    st.sampled_from([1, 2, 3, 5, 8]),
    st.sampled_from([1, 2, 4, 6, 8, 9]),
)
def test_whatever_a_person_writes_only_the_scheduler_resizes(
    file: dict[str, Any], now: int, then: int
) -> None:
    old = running_job(elastic_job(**file), now)
    new = deepcopy(old)
    new["spec"] |= {"parallelism": then, "completions": then}
    if not complaints(AdmissionRequest(new, old, "ada", TEAM)):
        after = changed(old, new)
        assert (after["spec"]["parallelism"], after["spec"]["completions"]) == (now, now)
        assert changed(old, after) == after


@given(JSON, JSON)
def test_the_patch_turns_the_one_into_the_other(before: Any, after: Any) -> None:
    wrapped = {"x": before}, {"x": after}
    assert json_patch(wrapped[0], create_patch(*wrapped)) == wrapped[1]
    assert create_patch(wrapped[0], wrapped[0]) == []
