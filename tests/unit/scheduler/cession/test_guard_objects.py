"""The objects of a guard."""

from cede.api import names
from cede.api.guards import queue_name
from scheduler.cession import guard_objects

GPU = "nvidia.com/gpu"
AMOUNTS = {("a100", GPU): 4, ("cpu-only", "cpu"): 1500}


def test_its_queue_has_exactly_what_it_uses_and_no_cohort() -> None:
    spec = guard_objects.cluster_queue("c-1", AMOUNTS)["spec"]
    assert "cohortName" not in spec
    assert [group["coveredResources"] for group in spec["resourceGroups"]] == [[GPU], ["cpu"]]
    assert spec["resourceGroups"][0]["flavors"] == [
        {"name": "a100", "resources": [{"name": GPU, "nominalQuota": "4"}]}
    ]


def test_a_queue_that_has_joined_owns_and_lends_and_borrows_nothing() -> None:
    spec = guard_objects.joined(AMOUNTS)
    assert spec["cohortName"] == names.COHORT
    resources = [g["flavors"][0]["resources"][0] for g in spec["resourceGroups"]]
    assert {(r["nominalQuota"], r["borrowingLimit"], r["lendingLimit"]) for r in resources} == {
        ("0", "0", "0")
    }


def test_its_pod_never_starts_and_its_time_is_limited() -> None:
    job = guard_objects.job("c-1", AMOUNTS, 120)
    assert job["metadata"]["labels"][names.MAX_EXECUTION_TIME] == "120"
    assert job["metadata"]["labels"][names.QUEUE_NAME] == "c-1"
    assert job["spec"]["suspend"] is True
    pod = job["spec"]["template"]["spec"]
    assert pod["schedulingGates"] == [{"name": names.GUARD}]
    assert pod["containers"][0]["resources"]["requests"] == {GPU: "4", "cpu": "1500m"}


def test_its_objects_show_their_cession() -> None:
    bodies = [
        guard_objects.cluster_queue("c-1", AMOUNTS),
        guard_objects.local_queue("c-1"),
        guard_objects.job("c-1", AMOUNTS, 120),
    ]
    assert all(body["metadata"]["labels"][names.GUARD] == "c-1" for body in bodies)
    assert bodies[1]["spec"] == {"clusterQueue": queue_name("c-1")}
