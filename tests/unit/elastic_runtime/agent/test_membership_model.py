"""Under any faults, generations only grow, each has one membership, and the job recovers."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.harness.membership_model import JobModel

PODS = 5
ANY_POD = st.integers(0, PODS - 1)
NOT_POD_0 = st.integers(1, PODS - 1)


class JobUnderFaults(RuleBasedStateMachine):
    @initialize(smallest=st.integers(1, 3))
    def begin(self, smallest: int) -> None:
        self.job = JobModel(PODS, smallest)
        # Generation → its members.
        self.memberships: dict[int, tuple[int, ...]] = {}
        # Name of a pod's incarnation → the newest generation it trained in.
        self.newest: dict[str, int] = {}

    @rule(size=st.integers(1, PODS + 1))
    def request_size(self, size: int) -> None:
        self.job.wanted = max(self.job.smallest, size)

    @rule()
    def request_stop(self) -> None:
        self.job.wanted = 0

    @rule()
    def terminate_all(self) -> None:
        for pod in self.job.pods.values():
            pod.leaving = pod.up

    @rule(index=ANY_POD, whole=st.booleans())
    def kill(self, index: int, whole: bool) -> None:
        self.job.kill(index, whole)

    @rule(index=NOT_POD_0)
    def terminate(self, index: int) -> None:
        self.job.pods[index].leaving = self.job.pods[index].up

    @rule(first=ANY_POD, second=ANY_POD)
    def kill_two_at_once(self, first: int, second: int) -> None:
        for index in {first, second}:
            self.job.kill(index, whole=False)

    @rule(index=ANY_POD)
    def start_pod(self, index: int) -> None:
        self.job.pods[index].up = True

    @rule(index=ANY_POD)
    def become_ready(self, index: int) -> None:
        self.job.pods[index].ready = self.job.pods[index].up

    @rule(index=ANY_POD)
    def fail_to_connect(self, index: int) -> None:
        self.job.pods[index].cannot_connect = True

    @rule(index=NOT_POD_0)
    def cut_off(self, index: int) -> None:
        self.job.pods[index].cut_off = True
        self.job.harmed = True

    @precondition(lambda self: any(pod.cut_off for pod in self.job.pods.values()))
    @rule(index=NOT_POD_0)
    def reconnect(self, index: int) -> None:
        self.job.pods[index].cut_off = False

    @rule(ticks=st.integers(1, 20))
    def pass_time(self, ticks: int) -> None:
        for _ in range(ticks):
            self.job.tick()
            self.each_generation_has_one_membership()

    @invariant()
    def each_generation_has_one_membership(self) -> None:
        for pod in self.job.pods.values():
            if pod.generation:
                assert self.memberships.setdefault(pod.generation, pod.members) == pod.members
                assert self.newest.get(pod.name, 0) <= pod.generation
                self.newest[pod.name] = pod.generation

    def teardown(self) -> None:
        """Without more faults, a stopped job is parked, and otherwise all wanted pods train."""
        if not hasattr(self, "job"):
            return
        self.job.settle()
        if self.job.wanted == 0:
            assert self.job.view.record.stop
            assert self.job.trains() == []
            self.job.wanted = None
            self.job.settle()
        wanted = [
            index for index in self.job.pods if self.job.wanted is None or index < self.job.wanted
        ]
        generations = {self.job.pods[index].generation for index in wanted}
        assert generations == {self.job.view.record.generation}
        assert self.job.trains() == wanted


TestJobUnderFaults = JobUnderFaults.TestCase
TestJobUnderFaults.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
