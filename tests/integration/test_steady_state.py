"""What stands by itself: edits are put back and told, clashes are said, Kueue's settings are
judged, and a quiet cluster stays quiet."""

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from cede.api.objects import Json
from tests.integration.admin import Admin, condition, governed

pytestmark = pytest.mark.cluster

TEAM = "gov-standing"
# longer than IDLE_S of the controllers, after which they look again; `make test-long` takes 300
QUIET_S = float(os.environ.get("CEDE_QUIET_SECONDS", "75"))


@pytest.fixture(scope="module")
def admin(cluster: Any) -> Iterator[Admin]:
    with governed(cluster, nodes=1) as found:
        found.team(TEAM, 4, members=[{"kind": "User", "name": "ann"}])
        yield found
        found.remove(TEAM)


def told(admin: Admin, name: str) -> list[str]:
    """What events say was put back, of one of our objects."""
    found = admin.cluster.kubectl_json(
        "get",
        "events",
        "-n",
        "default",
        "--field-selector",
        f"involvedObject.name={name},reason=PutBack",
    )
    return [one["message"] for one in found["items"]]


MALLORY = {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"}
STRIPPED = {names.MANAGED_BY: None, names.ALLOCATION: None}
EDITS: list[tuple[str, str, str, Json, str]] = [
    (
        "clusterqueue",
        "",
        TEAM,
        {"spec": {"stopPolicy": "Hold"}},
        "spec.stopPolicy was Hold, is None again",
    ),
    ("clusterqueue", "", TEAM, {"spec": {"resourceGroups": []}}, "spec.resourceGroups was"),
    (
        "rolebinding",
        TEAM,
        "cede-members",
        {"subjects": [MALLORY]},
        "subjects[0].name was mallory, is ann again",
    ),
    (
        "namespace",
        "",
        TEAM,
        {"metadata": {"labels": {names.TEAM: "x"}}},
        f"metadata.labels.cede.dev/team was x, is {TEAM} again",
    ),
    (
        "service",
        TEAM,
        "cede-peers",
        {"spec": {"selector": {names.ELASTIC_POD: "no"}}},
        "cede.dev/elastic was no, is true again",
    ),
    ("clusterqueue", "", TEAM, {"metadata": {"labels": STRIPPED}}, "was absent, is cede again"),
]


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "edit", "words"),
    EDITS,
    ids=[f"{one[0]} {one[4]}" for one in EDITS],
)
def test_an_edit_is_put_back_within_seconds_and_told(
    admin: Admin, kind: str, namespace: str, name: str, edit: Json, words: str
) -> None:
    where = ["-n", namespace] if namespace else []

    def said() -> Json:
        found: Json = admin.cluster.kubectl_json("get", kind, name, *where)
        return {k: v for k, v in found.items() if k not in ("metadata", "status")} | {
            "labels": found["metadata"]["labels"]
        }

    before = said()
    events = len(told(admin, TEAM))
    admin.cluster.kubectl(
        "patch",
        kind,
        name,
        *where,
        "--type=merge",
        "--field-manager=somebody",
        "-p",
        json.dumps(edit),
    )
    admin.cluster.until(lambda: said() == before, "the edit to be put back", 5)
    # an object edited again is told of once a minute
    if events == 0 or kind != "clusterqueue":
        admin.cluster.until(
            lambda: any(words in one for one in told(admin, TEAM)), f"an event that says {words}", 5
        )
        [sentence] = {one for one in told(admin, TEAM) if words in one}
        assert "was changed by somebody: " in sentence


def test_a_second_allocation_of_a_team_is_told_whose_it_is_and_heals(admin: Admin) -> None:
    admin.team("gov-second", 1, team=TEAM, namespace={"name": "gov-second"})
    try:
        found = condition(admin.allocation("gov-second"), "Ready")
        assert (found["status"], found["reason"]) == ("False", "TeamTaken")
        assert f"team {TEAM} has allocation {TEAM} already" in found["message"]
        assert condition(admin.allocation(TEAM), "Ready")["status"] == "True"
        admin.team("gov-second", 1, team="gov-other", namespace={"name": "gov-second"})
        admin.says("gov-second", "team gov-other owns")
    finally:
        admin.remove("gov-second")


def test_kueues_settings_are_judged_by_what_the_policy_wants(admin: Admin) -> None:
    def configured() -> Json:
        return condition(
            admin.cluster.kubectl_json("get", "clusterpolicy", names.POLICY_NAME), "KueueConfigured"
        )

    admin.cluster.until(
        lambda: configured().get("status") == "True", "Kueue to be set as the policy wants", 120
    )
    assert configured()["message"].startswith(
        "Kueue 0.19.2 is set as the policy wants; it queues batch/job"
    )
    admin.policy(idleCompute="FirstCome")
    admin.cluster.until(
        lambda: configured()["reason"] == "FairSharingOn",
        "the policy to say what Kueue does instead",
        120,
    )
    admin.policy()
    admin.cluster.until(
        lambda: configured()["status"] == "True", "the policy to be content again", 120
    )


def test_a_quiet_cluster_is_written_to_by_nobody_but_for_leases(admin: Admin) -> None:
    """By the API server's own audit log, of the writes of our service accounts."""
    log = admin.cluster.kubeconfig.parent / "log" / "audit.log"
    if not log.exists():
        pytest.skip("this cluster keeps no audit log: `make down`, then `make up`")
    admin.says(TEAM, f"team {TEAM} owns")
    # what the tests before have stirred up
    time.sleep(10)
    start = log.stat().st_size
    time.sleep(QUIET_S)
    with log.open() as lines:
        lines.seek(start)
        written = [json.loads(line) for line in lines]
    count = Counter(
        (one["user"]["username"].rpartition(":")[2], one["verb"], one["objectRef"]["resource"])
        for one in written
    )
    assert {who for who, _, _ in count} >= {"cede-quota-controller", "cede-scheduler"}, (
        "they live, and the log sees them"
    )
    assert {resource for _, _, resource in count} == {"leases"}, count
