"""A job of imagined pods, to which anything may happen: a simple model of what parents, sessions
and a coordinator do with a plan."""

from dataclasses import dataclass, field, replace

from elastic_runtime.agent.membership import Limits, Member, Record, View, plan

LIMITS = Limits()
MEET_S = 20.0


@dataclass
class Pod:
    """A pod as its parent and its session act: it forms what it is told, parks when it is not in
    it."""

    index: int
    life: int = 0
    up: bool = True
    ready: bool = False
    # from pod 0
    cut_off: bool = False
    leaving: bool = False
    parked: bool = False
    has_state: bool = False
    tried: int = 0
    generation: int = 0
    members: tuple[int, ...] = ()
    broken: int = 0
    # when it began to wait for the others of its record
    began: float = 0.0
    record: Record = field(default_factory=Record)
    # the newest generation in the job's journal when its processes began
    logged: int = 0

    @property
    def name(self) -> str:
        return f"{self.index}/{self.life}"

    def says(self, now: float) -> Member:
        return Member(
            self.index,
            self.name,
            generation=self.generation,
            members=self.members,
            ready=self.ready,
            leaving=self.leaving,
            parked=self.parked,
            broken=self.broken,
            newest=max(self.record.generation, self.logged),
            heard=now,
            since=now,
        )


class Job:
    """Pods, a coordinator in pod 0, and a clock. What is said arrives, unless a pod is cut off;
    what dies is silent."""

    def __init__(self, pods: int, smallest: int) -> None:
        self.now = 0.0
        self.smallest = smallest
        self.pods = {i: Pod(i) for i in range(pods)}
        self.view = View(smallest=smallest)
        self.wanted: int | None = None
        # how often nobody had a state
        self.begun = 0
        # since it last trained on: by a stop; by a fault that no stop can help
        self.saved = False
        self.harmed = False
        # the newest generation that anybody trained in
        self.logged = 0

    def tick(self) -> None:
        self.now += 0.2
        for pod in self.pods.values():
            self.live(pod)
        if self.pods[0].up:
            self.coordinate()

    def coordinate(self) -> None:
        before = self.view.members
        heard = {p.index: p.says(self.now) for p in self.pods.values() if p.up and not p.cut_off}

        def turned(m: Member) -> bool:
            old = before.get(m.index)
            return old is None or (old.ready, old.leaving, old.incarnation) != (
                m.ready,
                m.leaving,
                m.incarnation,
            )

        current = self.view.record
        broke = self.view.broke
        if broke is None and any(m.broken == current.generation > 0 for m in heard.values()):
            broke = self.now
        changed = self.now if any(turned(m) for m in heard.values()) else self.view.changed
        self.view = replace(
            self.view, members={**before, **heard}, wanted=self.wanted, changed=changed, broke=broke
        )
        if record := plan(self.view, self.now, LIMITS):
            assert record.generation > self.view.record.generation
            assert len(record.members) == len(record.incarnations)
            self.view = replace(self.view, record=replace(record, store="here"), broke=None)
        for pod in self.pods.values():
            if (
                pod.up
                and not pod.cut_off
                and self.view.record.generation >= pod.record.generation
                and self.view.record != pod.record
            ):
                pod.record = self.view.record
                pod.began = self.now

    def live(self, pod: Pod) -> None:
        record = pod.record
        # another pod comes in its place
        if pod.leaving and not pod.generation and not (pod.index == 0 and self.others_leave()):
            self.replace(pod, leaving=False, whole=True)
        if not pod.up or not pod.ready:
            return
        if pod.generation and self.lost(pod):
            pod.broken = pod.generation
        if record.generation <= pod.tried:
            return
        if (
            pod.generation
            and not (record.abrupt or record.stop)
            and any(not self.pods[i].ready for i in pod.members)
        ):
            # what leaving ranks handed over did not arrive
            pod.tried = pod.broken = record.generation
        elif record.stop and pod.generation and pod.index in record.members:
            self.save(pod)
        elif record.stop or pod.index not in record.members:
            pod.tried = record.generation
            pod.generation = 0
            pod.parked = True
        elif all(
            self.comes(i, name, record)
            for i, name in zip(record.members, record.incarnations, strict=True)
        ):
            if not any(self.pods[i].has_state for i in record.members):
                assert not (found := self.having()), (
                    f"{record} begins anew, and {found} have the state"
                )
                assert self.saved or self.harmed or not self.logged, (
                    f"{record} begins anew, and nothing was lost nor saved"
                )
                self.begun += 1
            self.saved = False
            self.harmed = False
            for i in record.members:
                other = self.pods[i]
                other.has_state = True
                other.tried = other.generation = self.logged = record.generation
                other.members = record.members
                other.parked = False
        elif self.now - pod.began > MEET_S:
            pod.tried = pod.broken = record.generation

    def save(self, pod: Pod) -> None:
        """The last of its generation to come to the end of a step sees all of them park with their
        state saved."""
        record = pod.record
        together = [self.pods[i] for i in pod.members]
        if all(
            p.up
            and p.record == record
            and p.generation == pod.generation
            and p.tried < record.generation
            for p in together
        ):
            self.saved = True
            for p in together:
                p.tried = record.generation
                p.generation = 0
                p.parked = True
        elif self.now - pod.began > MEET_S:
            pod.tried = pod.broken = record.generation

    def others_leave(self) -> bool:
        """They cannot agree on a last save without pod 0."""
        return any(pod.leaving and pod.generation for pod in self.pods.values())

    def having(self) -> list[Pod]:
        """Those that train, or would: who parked has seen the state go on without it, or saved."""
        return [
            pod
            for pod in self.pods.values()
            if pod.up and pod.has_state and not pod.parked and not pod.cut_off
        ]

    def comes(self, index: int, name: str, record: Record) -> bool:
        pod = self.pods[index]
        return (
            pod.up
            and pod.ready
            and pod.name == name
            and pod.record == record
            and pod.tried < record.generation
        )

    def lost(self, pod: Pod) -> bool:
        return any(
            not self.pods[i].up or self.pods[i].generation != pod.generation for i in pod.members
        )

    def kill(self, index: int, whole: bool) -> None:
        """A rank that is killed is started again by its parent; with a whole pod its parent goes,
        and pod 0's knowledge."""
        self.harmed = True
        self.replace(self.pods[index], leaving=self.pods[index].leaving and not whole, whole=whole)

    def replace(self, pod: Pod, *, leaving: bool, whole: bool) -> None:
        self.pods[pod.index] = Pod(
            pod.index, pod.life + 1, leaving=leaving, up=not whole, logged=self.logged
        )
        if pod.index == 0 and whole:
            self.view = View(smallest=self.smallest, born=self.now, changed=self.now)

    def settle(self) -> None:
        """No more faults: every pod comes up and gets ready."""
        if self.view.born == 0.0:
            self.view = replace(self.view, born=self.now)
        # more than `MEET_S`
        for _ in range(130):
            for pod in self.pods.values():
                pod.up = True
                pod.ready = True
                pod.cut_off = False
            self.tick()
