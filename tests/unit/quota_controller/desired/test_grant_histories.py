"""Over any history of edits, failures and restarts, no allocation takes what another was granted.

The plans and the statuses are those of the program. Only the watch and the restarts are the test's.
"""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from cede.api.allocation import ComputeAllocation
from cede.api.allocation_status import AllocationStatus
from cede.api.kueue import Node
from cede.api.names import GPU
from cede.api.resources import Quota
from quota_controller.desired.grant_records import GrantRecord
from quota_controller.desired.plan import Plan, make_plan
from quota_controller.desired.quota_entries import owned_quota
from quota_controller.status.allocation import allocation_statuses
from tests.builders.quotas import allocation, node, policy, snapshot

TEAMS = ["a", "b", "c", "d"]
TYPES = ["p5", "g6"]
NODES_OF_A_TYPE = 4
POLICY_TYPES = [
    {"name": "p5", "accelerators": 8, "cpu": "190", "memory": "1900Gi"},
    {"name": "g6", "accelerators": 4, "cpu": "48", "memory": "192Gi"},
]
SIZES = st.sampled_from([0, 1, 1, 2, 2, 3, 5, 50])
ENTRIES = st.one_of(
    SIZES.map(lambda count: {"count": count}),
    SIZES.map(lambda accelerators: {"accelerators": accelerators * 3}),
    SIZES.map(lambda number: {"accelerators": number * 2, "cpu": str(number * 40)}),
    SIZES.map(lambda number: {"cpu": str(number * 30)}),
)
SPECS = st.dictionaries(st.sampled_from(TYPES), ENTRIES)


def quotas_of(spec: Mapping[str, dict[str, int | str]]) -> list[dict[str, int | str]]:
    return [{"instanceType": type_name, **entry} for type_name, entry in spec.items()]


class Histories(RuleBasedStateMachine):
    """A cluster in which admins edit allocations, nodes fail, and the controller restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: dict[str, dict[str, dict[str, int | str]]] = {}
        self.incarnations: dict[str, int] = {}
        self.statuses: dict[str, AllocationStatus] = {}
        # what a watch that lags shows
        self.seen_statuses: dict[str, AllocationStatus] = {}
        self.types = list(POLICY_TYPES)
        self.down: set[str] = set()
        self.without_devices: set[str] = set()
        self.records: Mapping[str, GrantRecord] = {}
        self.plan = Plan()

    # --- the cluster ------------------------------------------------------------------------------
    def nodes(self) -> list[Node]:
        return [
            node(
                f"{type_name}-{number}",
                type_name,
                gpus=0 if f"{type_name}-{number}" in self.without_devices else gpus,
                cpu=cpu,
                ready="False" if f"{type_name}-{number}" in self.down else "True",
            )
            for type_name, gpus, cpu in (("p5", 8, "180"), ("g6", 4, "47"))
            for number in range(NODES_OF_A_TYPE)
        ]

    def allocations(self, statuses: Mapping[str, AllocationStatus]) -> list[ComputeAllocation]:
        allocations = []
        for name, spec in sorted(self.specs.items()):
            team = allocation(name, quotas=quotas_of(spec))
            uid = f"uid-{name}-{self.incarnations[name]}"
            metadata = replace(team.metadata, uid=uid)
            status = statuses.get(name, AllocationStatus())
            allocations.append(team.model_copy(update={"metadata": metadata, "status": status}))
        return allocations

    def reconcile(self, *, lagging: bool = False) -> None:
        """One pass of the controller, which writes all statuses."""
        statuses = self.seen_statuses if lagging else self.statuses
        cluster = replace(
            snapshot(
                self.allocations(statuses),
                cluster_policy=policy(instanceTypes=self.types),
                nodes=self.nodes(),
            ),
            grant_records=self.records,
        )
        self.plan = make_plan(cluster)
        self.records = self.plan.grant_records
        self.seen_statuses = self.statuses
        self.statuses = allocation_statuses(self.plan, cluster, {}, 0.0)

    def all_is_well(self) -> bool:
        return not self.down and not self.without_devices and len(self.types) == len(POLICY_TYPES)

    def asked(self, name: str) -> Quota:
        return Quota(self.plan.owned.get(name, Quota()))

    # --- what happens -----------------------------------------------------------------------------
    @initialize(specs=st.dictionaries(st.sampled_from(TEAMS), SPECS, min_size=2))
    def start(self, specs: dict[str, dict[str, dict[str, int | str]]]) -> None:
        self.specs |= specs
        self.incarnations |= dict.fromkeys(TEAMS, 0)
        self.reconcile()

    @rule(name=st.sampled_from(TEAMS), spec=SPECS, lagging=st.booleans())
    def edit(self, name: str, spec: dict[str, dict[str, int | str]], lagging: bool) -> None:
        """Creates the allocation, or replaces its quotas; nobody else may lose by it."""
        before = self.plan.grants.usable
        self.specs[name] = spec
        self.reconcile(lagging=lagging)
        self.nobody_else_lost(name, before)

    @rule(name=st.sampled_from(TEAMS))
    def delete(self, name: str) -> None:
        before = self.plan.grants.usable
        if self.specs.pop(name, None) is not None:
            self.incarnations[name] += 1
            self.statuses = {k: v for k, v in self.statuses.items() if k != name}
            self.seen_statuses = {k: v for k, v in self.seen_statuses.items() if k != name}
            self.reconcile()
            self.nobody_else_lost(name, before)

    @rule(name=st.sampled_from(TEAMS), spec=SPECS)
    def edit_while_the_controller_is_down(
        self, name: str, spec: dict[str, dict[str, int | str]]
    ) -> None:
        before = self.plan.grants.usable
        self.specs[name] = spec
        self.records = {}
        self.reconcile()
        self.nobody_else_lost(name, before)

    def nobody_else_lost(self, name: str, before: Mapping[str, Quota]) -> None:
        for other, quota in before.items():
            if other in self.specs and other != name:
                lost = quota - self.plan.grants.usable[other]
                assert not lost, f"an edit of {name} took {lost} from {other}"

    @rule()
    def restart(self) -> None:
        before = self.plan.grants
        self.records = {}
        self.reconcile()
        assert self.plan.grants.granted == before.granted
        assert self.plan.grants.usable == before.usable

    @rule(type_name=st.sampled_from(TYPES), number=st.integers(0, NODES_OF_A_TYPE - 1))
    def a_node_fails(self, type_name: str, number: int) -> None:
        self.down.add(f"{type_name}-{number}")
        self.reconcile()

    @rule(type_name=st.sampled_from(TYPES), number=st.integers(0, NODES_OF_A_TYPE - 1))
    def the_devices_of_a_node_are_gone(self, type_name: str, number: int) -> None:
        self.without_devices.add(f"{type_name}-{number}")
        self.reconcile()

    @rule(type_name=st.sampled_from(TYPES))
    def the_daemon_set_of_the_devices_restarts(self, type_name: str) -> None:
        """The devices of all nodes of the type are gone for a moment."""
        self.without_devices |= {f"{type_name}-{number}" for number in range(NODES_OF_A_TYPE)}
        self.reconcile()

    @rule()
    def the_power_fails(self) -> None:
        self.down |= {node.metadata.name for node in self.nodes()}
        self.reconcile()

    @precondition(lambda self: self.down or self.without_devices)
    @rule(data=st.data())
    def a_node_returns(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.down | self.without_devices)))
        self.down.discard(name)
        self.without_devices.discard(name)
        self.reconcile()

    @rule()
    def all_nodes_return(self) -> None:
        self.down.clear()
        self.without_devices.clear()
        self.reconcile()

    @precondition(lambda self: len(self.types) == len(POLICY_TYPES))
    @rule(position=st.sampled_from([0, 1]))
    def the_policy_loses_a_type(self, position: int) -> None:
        del self.types[position]
        self.reconcile()

    @rule()
    def the_policy_has_all_types_again(self) -> None:
        self.types = list(POLICY_TYPES)
        self.reconcile()

    # --- what holds always ------------------------------------------------------------------------
    @invariant()
    def queues_have_no_more_than_the_healthy_nodes(self) -> None:
        for type_name, capacity in self.plan.capacities.items():
            for resource in capacity.resources:
                key = (type_name, resource)
                usable = sum(quota[key] for quota in self.plan.grants.usable.values())
                assert usable + self.plan.grants.unallocated[key] == capacity.healthy[resource]

    @invariant()
    def with_all_nodes_everybody_has_what_was_granted(self) -> None:
        """No amount was granted twice, and none is lost."""
        if not self.all_is_well():
            return
        for name, granted in self.plan.grants.granted.items():
            assert granted == self.plan.grants.usable[name], name
            assert not granted - self.asked(name), name

    @invariant()
    def nothing_is_left_while_somebody_lacks_it(self) -> None:
        if not self.all_is_well():
            return
        unallocated = self.plan.grants.unallocated
        for name, granted in self.plan.grants.granted.items():
            for key in self.asked(name) - granted:
                assert not unallocated[key], (name, key)


class SmallTeams(Histories):
    """The same while one team asks for little and is never edited: it has all of that."""

    def __init__(self) -> None:
        super().__init__()
        self.specs["small"] = {"p5": {"count": 1}, "g6": {"accelerators": 2}}
        self.specs["large"] = {"p5": {"count": 50}, "g6": {"accelerators": 900}}
        self.incarnations |= dict.fromkeys(self.specs, 0)

    @invariant()
    def the_small_team_has_all_when_all_is_well(self) -> None:
        if self.plan.grants.usable and self.all_is_well():
            asked = owned_quota(
                allocation(quotas=quotas_of(self.specs["small"])).spec, self.plan.capacities
            )
            assert self.plan.grants.usable["small"] == asked
            assert asked["p5", GPU] == 8


COMMON = settings(
    deadline=None,
    # 40, and 800 with `--hypothesis-profile=long`
    max_examples=settings().max_examples * 2 // 5,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestHistories = Histories.TestCase
TestHistories.settings = COMMON
TestSmallTeams = SmallTeams.TestCase
TestSmallTeams.settings = COMMON
