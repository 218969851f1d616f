"""In any picture, what running jobs use is not taken away."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cede.api.objects import CLUSTER_QUEUES, NAMESPACES
from quota_controller.desired.desired_object import owner_of
from quota_controller.desired.plan import Snapshot, make_plan
from tests.builders.quotas import allocation, as_live, policy, queue_spec, snapshot
from tests.unit.quota_controller.desired.test_in_use import (
    DRAINED,
    IDLE,
    MEMBERS,
    RUNNING,
    selector,
    team,
)

TEAMS = ("a", "b", "c")
NAMESPACE_NAMES = st.sampled_from([*TEAMS, "d", "monitoring"])
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "team": st.sampled_from([*TEAMS, "d"]),
        "namespace": st.fixed_dictionaries({"name": NAMESPACE_NAMES, "adopt": st.booleans()}),
        "active": st.booleans(),
    },
)
STATUSES = st.sampled_from([RUNNING, IDLE, DRAINED, {}, {"reservingWorkloads": 2}])


def draw_edited(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Snapshot:
    """A cluster in place, and what became of its allocations."""
    live = as_live(make_plan(snapshot([team(name, **draw(SPECS)) for name in TEAMS])))
    for name in TEAMS:
        queue = live[CLUSTER_QUEUES, ("", name)]
        queue["status"] = draw(STATUSES)
        queue["spec"]["stopPolicy"] = draw(st.sampled_from(["None", "Hold"]))
    allocations = []
    unreadable = set[str]()
    for name in TEAMS:
        match draw(st.sampled_from(["read", "deleting", "unreadable", "none"])):
            case "unreadable":
                unreadable.add(name)
            case "none":
                pass
            case state:
                entry = allocation(
                    name, deleting=state == "deleting", members=MEMBERS, **draw(SPECS)
                )
                entry.status.namespace = draw(st.just("") | NAMESPACE_NAMES)
                allocations.append(entry)
    controllers = draw(st.sets(st.sampled_from(TEAMS)))
    cluster = snapshot(
        allocations,
        live=live,
        without_policy=draw(st.booleans()),
        cluster_policy=policy(security={"controllerNamespaces": sorted(controllers)}),
    )
    return replace(cluster, unreadable_allocations=frozenset(unreadable))


@given(st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_pass_takes_away_what_jobs_that_hold_quota_use(data: st.DataObject) -> None:
    cluster = draw_edited(data.draw)
    live = cluster.live
    plan = make_plan(cluster)
    in_use = {
        (name, namespace)
        for (kind, (_, name)), queue in live.items()
        if kind == CLUSTER_QUEUES
        and (queue["status"].get("reservingWorkloads") or name in cluster.unreadable_allocations)
        for namespace in queue["spec"]["namespaceSelector"]["matchLabels"].values()
        if owner_of(live.get((NAMESPACES, ("", namespace)), {"metadata": {}})) == name
    }
    deleted = {(kind.kind, key) for kind, key, _ in plan.unwanted(live)}
    abandoned = {key[1] for key, _ in plan.abandoned_namespaces}
    for name, namespace in in_use:
        assert namespace not in abandoned
        assert ("ClusterQueue", ("", name)) not in deleted
        assert not {kind for kind, key in deleted if key[0] == namespace}
        labelled = (NAMESPACES, ("", namespace))
        assert {d.owner for d in plan.objects if d.object_id == labelled} <= {name}
        assert {d.owner for d in plan.objects if d.key[0] == namespace} <= {name}
        assert queue_spec(plan, name)["namespaceSelector"] == selector(namespace)
    if in_use:
        assert not {kind for kind, _ in deleted} & {"ResourceFlavor", "Cohort"}
