"""Whatever happens to a job of imagined pods, its generations only grow, are of one membership
each, and end well."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.harness.membership_model import Job

PODS = 5
ANY = st.integers(0, PODS - 1)
OTHER = st.integers(1, PODS - 1)


class AnythingHappens(RuleBasedStateMachine):
    @initialize(smallest=st.integers(1, 3))
    def begin(self, smallest: int) -> None:
        self.job = Job(PODS, smallest)
        # generation → who trained in it
        self.of: dict[int, tuple[int, ...]] = {}
        # by a process's name
        self.newest: dict[str, int] = {}

    @rule(size=st.integers(1, PODS + 1))
    def a_size_is_asked(self, size: int) -> None:
        self.job.wanted = max(self.job.smallest, size)

    @rule()
    def it_is_stopped(self) -> None:
        self.job.wanted = 0

    @rule()
    def everybody_is_told_to_go(self) -> None:
        for pod in self.job.pods.values():
            pod.leaving = pod.up

    @rule(index=ANY, whole=st.booleans())
    def one_is_killed(self, index: int, whole: bool) -> None:
        self.job.kill(index, whole)

    @rule(index=OTHER)
    def one_is_told_to_go(self, index: int) -> None:
        self.job.pods[index].leaving = self.job.pods[index].up

    @rule(first=ANY, second=ANY)
    def two_are_killed_at_once(self, first: int, second: int) -> None:
        for index in {first, second}:
            self.job.kill(index, whole=False)

    @rule(index=ANY)
    def a_pod_comes_back(self, index: int) -> None:
        self.job.pods[index].up = True

    @rule(index=ANY)
    def one_gets_ready(self, index: int) -> None:
        self.job.pods[index].ready = self.job.pods[index].up

    @rule(index=OTHER)
    def one_is_cut_off(self, index: int) -> None:
        self.job.pods[index].cut_off = True
        self.job.harmed = True

    @precondition(lambda self: any(pod.cut_off for pod in self.job.pods.values()))
    @rule(index=OTHER)
    def one_is_heard_again(self, index: int) -> None:
        self.job.pods[index].cut_off = False

    @rule(ticks=st.integers(1, 20))
    def time_goes_by(self, ticks: int) -> None:
        for _ in range(ticks):
            self.job.tick()
            self.one_membership_a_generation()

    @invariant()
    def one_membership_a_generation(self) -> None:
        for pod in self.job.pods.values():
            if pod.generation:
                assert self.of.setdefault(pod.generation, pod.members) == pod.members
                assert self.newest.get(pod.name, 0) <= pod.generation
                self.newest[pod.name] = pod.generation

    def teardown(self) -> None:
        """No more faults: then a job that was stopped stands, and all who are wanted train
        together."""
        if not hasattr(self, "job"):
            return
        self.job.settle()
        if self.job.wanted == 0:
            assert self.job.view.record.stop
            assert not any(pod.generation for pod in self.job.pods.values())
            self.job.wanted = None
            self.job.settle()
        wanted = [i for i in self.job.pods if self.job.wanted is None or i < self.job.wanted]
        assert {self.job.pods[i].generation for i in wanted} == {self.job.view.record.generation}
        assert [i for i in self.job.pods if self.job.pods[i].generation] == wanted


TestAnythingHappens = AnythingHappens.TestCase
TestAnythingHappens.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
