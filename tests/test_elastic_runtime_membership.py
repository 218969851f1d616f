"""Who is in each generation: the cases by name, and a job of imagined pods to which anything may happen."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elastic_runtime.membership import Limits, Member, Record, View, plan

LIMITS = Limits()
MEET_S = 20.0
NOW = 100.0
SETTLED, JUST_NOW = NOW - 60, NOW


def member(index: int, **facts: object) -> Member:
    """A pod that trains in generation 3, unless said otherwise."""
    known = {"generation": 3, "ready": True, "heard": NOW, "since": SETTLED, "address": f"10.0.0.{index}"} | facts
    return Member(index, f"life-{index}", **known)  # type: ignore[arg-type]


def waiting(index: int, **facts: object) -> Member:
    return member(index, generation=0, **facts)


def view(members: Iterable[Member], of: tuple[int, ...] = (0, 1, 2, 3), **facts: object) -> View:
    """A job whose generation 3 is made of the pods `of`."""
    record = Record(3, of, tuple(f"life-{i}" for i in of), "10.0.0.0:1") if of else Record()
    known = {"born": SETTLED, "changed": SETTLED} | facts
    return View(record, {m.index: m for m in members}, **known)  # type: ignore[arg-type]


FOUR = [member(i) for i in range(4)]


@pytest.mark.parametrize(
    ("seen", "members"),
    [
        pytest.param(view(FOUR), None, id="all is well"),
        pytest.param(view(FOUR, wanted=2), (0, 1), id="a smaller size is wanted"),
        pytest.param(view(FOUR, wanted=2, changed=JUST_NOW), (0, 1), id="a shrink waits for nothing"),
        pytest.param(view(FOUR, wanted=8), None, id="a larger size is wanted, nobody is there yet"),
        pytest.param(view([*FOUR, waiting(4), waiting(5)], wanted=8), (0, 1, 2, 3, 4, 5), id="whoever is ready joins"),
        pytest.param(view([*FOUR, waiting(4, ready=False)], wanted=8), None, id="nobody waits for an import"),
        pytest.param(view([*FOUR, waiting(4)], wanted=8, changed=JUST_NOW), None, id="those who come together are taken together"),
        pytest.param(view([*FOUR, waiting(4)], wanted=4), None, id="nobody joins beyond the wanted size"),
        pytest.param(view([*FOUR, waiting(4)]), (0, 1, 2, 3, 4), id="never asked: whoever is there"),
        pytest.param(view([*FOUR[:3], member(3, leaving=True)]), (0, 1, 2), id="a pod is told to go"),
        pytest.param(view([*FOUR[:3], member(3, generation=2), waiting(4)]), None, id="one plan at a time"),
        pytest.param(
            view([*FOUR[:3], member(3, heard=NOW - 0.2)], broke=NOW - 0.1), None, id="it broke just now: who was lost will be known"
        ),
        pytest.param(view([*FOUR[:3], member(3, finished=True)]), None, id="finished: who is left will finish too"),
    ],
)
def test_at_the_end_of_a_step(seen: View, members: tuple[int, ...] | None) -> None:
    record = plan(seen, NOW, LIMITS)
    assert (record.members if record else None) == members
    assert record is None or (record.generation, record.abrupt, record.stop) == (4, False, False)


@pytest.mark.parametrize(
    ("seen", "members"),
    [
        pytest.param(view([*FOUR[:3], member(3, heard=NOW - LIMITS.silent_s - 0.1)]), (0, 1, 2), id="a pod is silent"),
        pytest.param(view([*FOUR[:3], replace(member(3), incarnation="next-life")]), (0, 1, 2), id="a process died and is back"),
        pytest.param(view(FOUR[1:]), (1, 2, 3), id="pod 0's processes died"),
        pytest.param(view(FOUR, broke=NOW), (0, 1, 2, 3), id="a connection broke, and all have spoken since"),
        pytest.param(
            view([*FOUR[:3], member(3, heard=NOW - 1.2)], broke=NOW - 1.1), (0, 1, 2), id="it broke, and one has not spoken since"
        ),
        pytest.param(view([*FOUR[:2], member(2, leaving=True)]), (0, 1), id="one died while another was leaving"),
    ],
)
def test_at_once(seen: View, members: tuple[int, ...]) -> None:
    record = plan(seen, NOW, LIMITS)
    assert record
    assert (record.members, record.generation, record.abrupt) == (members, 4, True)


def test_a_leaver_that_parked_is_not_lost() -> None:
    parked = member(3, generation=0, parked=True, heard=NOW - 60)
    assert plan(view([*FOUR[:3], parked], of=(0, 1, 2)), NOW, LIMITS) is None


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(view(FOUR, wanted=0), id="size 0 is asked for"),
        pytest.param(view([replace(m, leaving=True) for m in FOUR]), id="everybody is told to go"),
    ],
)
def test_the_last_generation_saves(seen: View) -> None:
    record = plan(seen, NOW, LIMITS)
    assert record
    assert (record.stop, record.members) == (True, (0, 1, 2, 3))


def test_while_signals_still_come_in_nobody_decides_that_it_is_the_end() -> None:
    assert plan(view([replace(m, leaving=True) for m in FOUR], changed=JUST_NOW), NOW, LIMITS) is None


@pytest.mark.parametrize(
    ("there", "smallest", "members"),
    [
        pytest.param([0], 2, None, id="below the smallest size"),
        pytest.param([0, 2], 2, None, id="a gap in the smallest size"),
        pytest.param([0, 1], 2, (0, 1), id="the smallest size"),
        pytest.param([0, 1, 2, 3], 2, (0, 1, 2, 3), id="more than that"),
    ],
)
def test_the_first_generation(there: list[int], smallest: int, members: tuple[int, ...] | None) -> None:
    record = plan(view([waiting(i) for i in there], of=(), smallest=smallest), NOW, LIMITS)
    assert (record.members if record else None) == members


@pytest.mark.parametrize(
    ("told", "born", "members"),
    [
        pytest.param([1, 2, 3], NOW - 1, (1, 2, 3), id="all others have spoken"),
        pytest.param([1, 3], NOW - 1, None, id="one has not spoken yet"),
        pytest.param([1, 3], NOW - LIMITS.gather_s - 1, (1, 3), id="one never will"),
    ],
)
def test_a_new_pod_0_learns_from_the_members(told: list[int], born: float, members: tuple[int, ...] | None) -> None:
    training = [member(i, members=(0, 1, 2, 3)) for i in told]
    record = plan(view([waiting(0), *training], of=(), born=born), NOW, LIMITS)
    assert (record.members if record else None) == members
    assert record is None or (record.generation, record.abrupt) == (4, True)


# --- a job to which anything may happen -------------------------------------------------------------------------------
@dataclass
class Pod:
    """A pod as its parent and its session act: it forms what it is told, parks when it is not in it."""

    index: int
    life: int = 0
    up: bool = True
    ready: bool = False
    cut_off: bool = False  # from pod 0
    leaving: bool = False
    parked: bool = False
    tried: int = 0
    generation: int = 0
    members: tuple[int, ...] = ()
    broken: int = 0
    began: float = 0.0  # when it began to wait for the others of its record
    record: Record = field(default_factory=Record)

    @property
    def name(self) -> str:
        return f"{self.index}/{self.life}"

    def says(self, now: float) -> Member:
        return Member(
            self.index, self.name, generation=self.generation, members=self.members, ready=self.ready, leaving=self.leaving,
            parked=self.parked, broken=self.broken, newest=self.record.generation, heard=now, since=now,
        )  # fmt: skip


class Job:
    """Pods, a coordinator in pod 0, and a clock. What is said arrives, unless a pod is cut off; what dies is silent."""

    def __init__(self, pods: int, smallest: int) -> None:
        self.now, self.smallest = 0.0, smallest
        self.pods = {i: Pod(i) for i in range(pods)}
        self.view = View(smallest=smallest)
        self.wanted: int | None = None

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
            return old is None or (old.ready, old.leaving, old.incarnation) != (m.ready, m.leaving, m.incarnation)

        current, broke = self.view.record, self.view.broke
        if broke is None and any(m.broken == current.generation > 0 and m.index in current.members for m in heard.values()):
            broke = self.now
        changed = self.now if any(turned(m) for m in heard.values()) else self.view.changed
        self.view = replace(self.view, members={**before, **heard}, wanted=self.wanted, changed=changed, broke=broke)
        if record := plan(self.view, self.now, LIMITS):
            assert record.generation > self.view.record.generation
            assert len(record.members) == len(record.incarnations)
            self.view = replace(self.view, record=replace(record, store="here"), broke=None)
        for pod in self.pods.values():
            if pod.up and not pod.cut_off and self.view.record.generation >= pod.record.generation and self.view.record != pod.record:
                pod.record, pod.began = self.view.record, self.now

    def live(self, pod: Pod) -> None:
        record = pod.record
        if not pod.up or not pod.ready:
            return
        if pod.generation and self.lost(pod):
            pod.broken = pod.generation
        if record.generation <= pod.tried:
            return
        if record.stop or pod.index not in record.members:
            pod.tried, pod.generation, pod.parked = record.generation, 0, True
        elif all(self.comes(i, name, record) for i, name in zip(record.members, record.incarnations, strict=True)):
            for i in record.members:
                other = self.pods[i]
                other.tried = other.generation = record.generation
                other.members, other.parked = record.members, False
        elif self.now - pod.began > MEET_S:
            pod.tried = pod.broken = record.generation

    def comes(self, index: int, name: str, record: Record) -> bool:
        pod = self.pods[index]
        return pod.up and pod.ready and pod.name == name and pod.record == record and pod.tried < record.generation

    def lost(self, pod: Pod) -> bool:
        return any(not self.pods[i].up or self.pods[i].generation != pod.generation for i in pod.members)

    def kill(self, index: int, whole: bool) -> None:
        """A rank that is killed is started again by its parent; with a whole pod its parent goes, and pod 0's knowledge."""
        pod = self.pods[index]
        self.pods[index] = Pod(index, pod.life + 1, leaving=pod.leaving and not whole, up=not whole)
        if index == 0 and whole:
            self.view = View(smallest=self.smallest, born=self.now, changed=self.now)

    def settle(self) -> None:
        """No more faults: every pod comes up and gets ready."""
        for pod in self.pods.values():
            pod.up, pod.ready, pod.cut_off = True, True, False
        if self.view.born == 0.0:
            self.view = replace(self.view, born=self.now)
        for _ in range(90):
            self.tick()


EVENT = st.one_of(
    st.tuples(st.just("size"), st.integers(1, 6)),
    st.tuples(st.just("kill rank"), st.integers(0, 4)),
    st.tuples(st.just("kill pod"), st.integers(0, 4)),
    st.tuples(st.just("pod comes back"), st.integers(0, 4)),
    st.tuples(st.just("is cut off"), st.integers(1, 4)),
    st.tuples(st.just("is heard again"), st.integers(1, 4)),
    st.tuples(st.just("is ready"), st.integers(0, 4)),
    st.tuples(st.just("time goes by"), st.integers(1, 20)),
)


@settings(max_examples=300, deadline=None)
@given(smallest=st.integers(1, 3), events=st.lists(EVENT, max_size=30))
def test_whatever_happens_all_who_are_wanted_train_together_in_the_end(smallest: int, events: list[tuple[str, int]]) -> None:
    job = Job(5, smallest)
    for what, number in events:
        match what:
            case "size":
                job.wanted = max(smallest, number)
            case "kill rank":
                job.kill(number, whole=False)
            case "kill pod":
                job.kill(number, whole=True)
            case "pod comes back":
                job.pods[number].up = True
            case "is cut off" | "is heard again":
                job.pods[number].cut_off = what == "is cut off"
            case "is ready":
                job.pods[number].ready = job.pods[number].up
            case "time goes by":
                for _ in range(number):
                    job.tick()
        job.tick()
    job.settle()
    wanted = [i for i in job.pods if job.wanted is None or i < job.wanted]
    assert {job.pods[i].generation for i in wanted} == {job.view.record.generation}
    assert [i for i in job.pods if job.pods[i].generation] == wanted


def test_those_who_wait_outside_are_heard_by_a_new_pod_0() -> None:
    job = Job(3, smallest=1)
    job.settle()
    job.wanted = 1
    job.settle()
    assert [i for i in job.pods if job.pods[i].generation] == [0]
    job.kill(0, whole=True)
    job.settle()
    job.wanted = 3
    job.settle()
    assert [i for i in job.pods if job.pods[i].generation] == [0, 1, 2]
