"""A model of a job under faults: what agents, sessions and a coordinator do with a decision."""

from dataclasses import dataclass, field, replace

from elastic_runtime.agent.membership import RULES, classify, plan
from elastic_runtime.agent.membership_reasons import AT_ONCE, STOP, WAIT
from elastic_runtime.agent.membership_view import Limits, Member, View
from elastic_runtime.messages import Record

LIMITS = Limits()
TICK_S = 0.2
# More ticks than the wait for a majority that may be cut off.
SETTLE_TICKS = 130
REASONS = {rule.situation: rule.reasons for rule in RULES}


@dataclass
class Pod:
    """A pod as its agent and its session act: it joins its record, or parks if it is not in it.

    As the session does, it waits without end for the other members.
    """

    index: int
    incarnation: int = 0
    up: bool = True
    ready: bool = False
    # From pod 0.
    cut_off: bool = False
    # Its next attempt to connect to the others fails.
    cannot_connect: bool = False
    leaving: bool = False
    parked: bool = False
    has_state: bool = False
    # The newest generation that the pod formed, gave up or parked for.
    tried: int = 0
    generation: int = 0
    members: tuple[int, ...] = ()
    broken: int = 0
    record: Record = field(default_factory=Record)
    # The newest generation in the job's journal when the processes started.
    journaled: int = 0

    @property
    def name(self) -> str:
        return f"{self.index}/{self.incarnation}"

    def report(self, now: float) -> Member:
        return Member(
            self.index,
            self.name,
            generation=self.generation,
            members=self.members,
            ready=self.ready,
            leaving=self.leaving,
            parked=self.parked,
            broken=self.broken,
            newest_generation=max(self.record.generation, self.journaled),
            reported_at=now,
            first_reported_at=now,
        )


class JobModel:
    """Pods, a coordinator in pod 0, and a clock.

    Every report arrives unless its pod is cut off. A dead pod is silent.
    """

    def __init__(self, pods: int, smallest: int) -> None:
        self.now = 0.0
        self.smallest = smallest
        self.pods = {index: Pod(index) for index in range(pods)}
        self.view = View(smallest=smallest)
        self.wanted: int | None = None
        # How often the job started when no pod had the state.
        self.starts = 0
        # Since the job last formed a generation: its state was saved by a stop; there was a fault
        # after which the state may be lost.
        self.saved = False
        self.harmed = False
        # The newest generation that any pod trained in.
        self.journaled = 0

    # --- the coordinator --------------------------------------------------------------------------

    def tick(self) -> None:
        self.now += TICK_S
        for pod in self.pods.values():
            self._act(pod)
        if self.pods[0].up:
            self._coordinate()

    def _coordinate(self) -> None:
        self.view = self._merge_reports()
        decision = plan(self.view, self.now, LIMITS)
        record = decision.record
        assert decision.reason in REASONS[classify(self.view, self.now, LIMITS)]
        assert (record is None) == (decision.reason.outcome == WAIT)
        if record is not None:
            assert record.abrupt == (decision.reason.outcome == AT_ONCE)
            assert record.stop == (decision.reason.outcome == STOP)
            assert record.generation > self.view.record.generation
            assert len(record.members) == len(record.incarnations)
            self.view = replace(self.view, record=replace(record, store="here"), broke_at=None)
        for pod in self.pods.values():
            is_news = (
                self.view.record.generation >= pod.record.generation
                and self.view.record != pod.record
            )
            if pod.up and not pod.cut_off and is_news:
                pod.record = self.view.record

    def _merge_reports(self) -> View:
        before = self.view.members
        reports = {
            pod.index: pod.report(self.now)
            for pod in self.pods.values()
            if pod.up and not pod.cut_off
        }
        generation = self.view.record.generation
        broke_at = self.view.broke_at
        if broke_at is None and any(m.broken == generation > 0 for m in reports.values()):
            broke_at = self.now
        has_changed = any(_has_changed(before.get(m.index), m) for m in reports.values())
        return replace(
            self.view,
            members={**before, **reports},
            wanted=self.wanted,
            changed_at=self.now if has_changed else self.view.changed_at,
            broke_at=broke_at,
        )

    # --- a pod ------------------------------------------------------------------------------------

    def _act(self, pod: Pod) -> None:
        record = pod.record
        if pod.leaving and not pod.generation and not (pod.index == 0 and self._others_leave()):
            # Kubernetes starts another pod in its place.
            self._replace(pod, leaving=False, whole=True)
        if not pod.up or not pod.ready:
            return
        if pod.generation and self._lost_a_member(pod):
            pod.broken = max(pod.broken, pod.generation)
        if record.generation <= pod.tried:
            return
        if (
            pod.generation
            and not (record.abrupt or record.stop)
            and any(not self.pods[index].ready for index in pod.members)
        ):
            # What leaving pods handed over did not arrive.
            pod.tried = pod.broken = record.generation
        elif record.stop and pod.generation and pod.index in record.members:
            self._save(pod)
        elif record.stop or pod.index not in record.members:
            _park(pod, record)
        elif self._all_come(record):
            self._connect(record)

    def _connect(self, record: Record) -> None:
        """Whoever cannot connect gives the generation up. The others wait for it."""
        members = [self.pods[index] for index in record.members]
        failing = [member for member in members if member.cannot_connect]
        for member in failing:
            member.cannot_connect = False
            member.tried = member.broken = record.generation
        if not failing:
            self._form(record)

    def _form(self, record: Record) -> None:
        if not any(self.pods[index].has_state for index in record.members):
            holders = self._holders()
            assert not holders, f"{record} starts again, but {holders} have the state"
            assert self.saved or self.harmed or not self.journaled, (
                f"{record} starts again, but nothing was lost or saved"
            )
            self.starts += 1
        self.saved = False
        self.harmed = False
        self.journaled = record.generation
        for index in record.members:
            member = self.pods[index]
            member.has_state = True
            member.tried = record.generation
            member.generation = record.generation
            member.members = record.members
            member.parked = False

    def _save(self, pod: Pod) -> None:
        """When the last member comes to the end of its step, all save the state and park."""
        record = pod.record
        members = [self.pods[index] for index in pod.members]
        all_arrive = all(
            member.up
            and member.record == record
            and member.generation == pod.generation
            and member.tried < record.generation
            for member in members
        )
        if all_arrive:
            self.saved = True
            for member in members:
                _park(member, record)
        elif self._lost_a_member(pod):
            pod.tried = pod.broken = record.generation

    def _others_leave(self) -> bool:
        """Without pod 0 they cannot agree on a last save."""
        return any(pod.leaving and pod.generation for pod in self.pods.values())

    def _holders(self) -> list[Pod]:
        """Pods with the state, except parked ones: their state was handed over or saved."""
        return [
            pod
            for pod in self.pods.values()
            if pod.up and pod.has_state and not pod.parked and not pod.cut_off
        ]

    def _all_come(self, record: Record) -> bool:
        return all(
            self._comes(self.pods[index], name, record)
            for index, name in zip(record.members, record.incarnations, strict=True)
        )

    def _comes(self, pod: Pod, name: str, record: Record) -> bool:
        return (
            pod.up
            and pod.ready
            and pod.name == name
            and pod.record == record
            and pod.tried < record.generation
        )

    def _lost_a_member(self, pod: Pod) -> bool:
        return any(
            not self.pods[index].up or self.pods[index].generation != pod.generation
            for index in pod.members
        )

    # --- faults -----------------------------------------------------------------------------------

    def kill(self, index: int, whole: bool) -> None:
        """Kill a pod's rank, which its agent starts again; or the `whole` pod with its agent.

        With the whole pod 0, the coordinator's knowledge is lost.
        """
        self.harmed = True
        leaving = self.pods[index].leaving and not whole
        self._replace(self.pods[index], leaving=leaving, whole=whole)

    def _replace(self, pod: Pod, *, leaving: bool, whole: bool) -> None:
        self.pods[pod.index] = Pod(
            pod.index,
            pod.incarnation + 1,
            leaving=leaving,
            up=not whole,
            journaled=self.journaled,
        )
        if pod.index == 0 and whole:
            self.view = View(smallest=self.smallest, started_at=self.now, changed_at=self.now)

    def settle(self) -> None:
        """No more faults: every pod comes up and becomes ready."""
        if self.view.started_at == 0.0:
            self.view = replace(self.view, started_at=self.now)
        for _ in range(SETTLE_TICKS):
            for pod in self.pods.values():
                pod.up = True
                pod.ready = True
                pod.cut_off = False
            self.tick()

    def trains(self) -> list[int]:
        """The pods that train."""
        return [index for index, pod in self.pods.items() if pod.generation]


def _park(pod: Pod, record: Record) -> None:
    pod.tried = record.generation
    pod.generation = 0
    pod.parked = True


def _has_changed(before: Member | None, now: Member) -> bool:
    return before is None or (before.ready, before.leaving, before.incarnation) != (
        now.ready,
        now.leaving,
        now.incarnation,
    )
