"""Generations: who is in, who leaves, who comes. Decided from what the pods last said. Pure.

A *generation* is one membership of the job, numbered; numbers only grow, and whoever reads a newer
one drops the old.
"""

from collections.abc import Iterable, Mapping

from elastic_runtime.agent.membership_view import Limits, Member, View
from elastic_runtime.messages import Record


def plan(view: View, now: float, limits: Limits) -> Record | None:
    """The next generation, without its store; None to leave things as they are."""
    alive = {
        m.index: m
        for m in view.members.values()
        if now - m.reported_at <= limits.silent_s and not m.finished
    }
    if view.record.generation == 0:
        return _first(view, alive, now, limits)
    current = view.record
    there = [
        i
        for i, incarnation in zip(current.members, current.incarnations, strict=True)
        if i in alive and alive[i].incarnation == incarnation
    ]
    if any(m.finished for m in view.members.values()):
        # the last step is done; whoever is still here is about to finish too
        return None
    lost = [
        i
        for i in current.members
        if i not in there and not (current.stop and i in view.members and view.members[i].parked)
    ]
    if current.stop and all(alive[i].parked for i in there):
        # what dies now was saved before
        lost = []
    if lost or view.broke_at is not None:
        return _after_a_loss(view, alive, there, bool(lost), now, limits)
    if current.stop or not there:
        saving = any(alive[i].leaving and not alive[i].parked for i in there)
        # they have the state, and have not noticed yet that somebody was lost
        late = not current.stop and _behind(view, alive)
        stopped = current.stop and view.wanted == 0
        return None if stopped or saving or late else _restart(view, alive, now, limits)
    if any(alive[i].generation != current.generation for i in there):
        # it is still forming; two plans at once would let members meet in different places
        return None
    ceiling = view.wanted if view.wanted is not None else max(alive, default=0) + 1
    target = [
        m
        for m in alive.values()
        if m.index < ceiling and not m.leaving and (m.index in there or m.ready)
    ]
    target.sort(key=lambda m: m.index)
    coming = [
        m
        for m in alive.values()
        if m.index < ceiling and m.index not in there and not m.ready and not m.leaving
    ]
    if not target and coming and (staying := [alive[i] for i in there if not alive[i].leaving]):
        # one that is to stay starts again: it gets the state from those who are not needed any more
        target = staying
    if not target:
        return (
            _record(view, [alive[i] for i in there], stop=True)
            if now - view.changed_at >= limits.settle_s or view.wanted == 0
            else None
        )
    # who has the state stays until the others have it
    if not {m.index for m in target} & {*current.members}:
        target = sorted([*target, *(alive[i] for i in there)], key=lambda m: m.index)
    if [m.index for m in target] == list(current.members):
        return None
    only_joins = set(current.members) <= {m.index for m in target}
    if only_joins and coming and now - view.changed_at < limits.gather_s:
        # pods that start together get ready one by one: one resize takes them all
        return None
    leaves_by_request = view.wanted is not None and any(i >= view.wanted for i in current.members)
    # whoever was asked for is here: nobody else will come
    complete = [m.index for m in target] == list(range(view.wanted or 0))
    settled = now - view.changed_at >= limits.settle_s or leaves_by_request or complete
    if not settled and (only_joins or any(m.leaving for m in alive.values())):
        return None
    return _record(view, target)


def _after_a_loss(
    view: View,
    alive: Mapping[int, Member],
    there: list[int],
    known: bool,
    now: float,
    limits: Limits,
) -> Record | None:
    """Those of this generation who are still `there`, and those who were about to leave with it.
    `known`: who was lost."""
    current = view.record
    broke = view.broke_at
    quiet = [i for i in there if broke is not None and alive[i].reported_at < broke]
    if quiet and broke is not None and now - broke >= limits.silent_after_break_s:
        there = [i for i in there if i not in quiet]
    elif quiet and not known:
        # whoever was lost is known as soon as all others, or its own parent, have spoken
        return None
    behind = [m for m in _behind(view, alive) if m.index not in there]
    since = (
        broke
        if broke is not None
        else max(
            (m.first_reported_at for m in view.members.values() if m.index in current.members),
            default=0.0,
        )
    )
    if (
        any(m.broken != current.generation for m in behind)
        and now - since < limits.silent_after_break_s
    ):
        # who leaves has not said yet whether it handed over
        return None
    # it has not, and what it holds may be with nobody else
    back = {m.index for m in behind if m.reported_at >= since}
    # who is told to go, too: it goes when it has handed over
    if survivors := [alive[i] for i in sorted({*there} | back)]:
        return _record(view, survivors, abrupt=True)
    # nobody has the state any more: the next one starts from the newest save
    return _record(view, ())


def _behind(view: View, alive: Mapping[int, Member]) -> list[Member]:
    """Those who train in an older generation, or did when it broke, while nobody has formed this
    record."""
    going = [m for m in alive.values() if m.generation and not m.parked]
    newest = max((m.generation for m in going), default=0)
    return [m for m in going if m.generation == newest < view.record.generation]


def _first(view: View, alive: Mapping[int, Member], now: float, limits: Limits) -> Record | None:
    """The first generation this coordinator makes: of those who already train, if there are any;
    else of the smallest size."""
    training = [m for m in alive.values() if m.generation > 0 and not m.parked]
    if training:
        newest = max(training, key=lambda m: m.generation)
        missing = set(newest.members) - view.members.keys() - {0}
        if missing and now - view.started_at < limits.gather_s:
            return None
        of = [m for m in training if m.generation == newest.generation]
        return _record(view, sorted(of, key=lambda m: m.index), abrupt=True)
    if now - view.started_at < limits.settle_s:
        return None
    return _restart(view, alive, now, limits)


def _restart(view: View, alive: Mapping[int, Member], now: float, limits: Limits) -> Record | None:
    """Everybody starts from the newest save: as soon as the smallest size is there. In a job of
    size 0 nobody does, and it is stopped."""
    if view.wanted == 0:
        there = sorted((m for m in alive.values() if m.ready), key=lambda m: m.index)
        return _record(view, there, stop=True) if there else None
    # the state, though they may not be wanted any more
    holding = {i for i in view.record.members if i in alive and not alive[i].parked}
    ready = {
        i: m
        for i, m in alive.items()
        if m.ready and not m.leaving and (view.wanted is None or i < view.wanted or i in holding)
    }
    if not all(i in ready for i in range(view.smallest)) or now - view.changed_at < limits.settle_s:
        return None
    return _record(view, [ready[i] for i in sorted(ready)])


def _record(
    view: View, members: Iterable[Member], *, abrupt: bool = False, stop: bool = False
) -> Record:
    chosen = list(members)
    after = max(
        [
            view.record.generation,
            *(max(m.newest_generation, m.generation) for m in view.members.values()),
        ]
    )
    return Record(
        after + 1,
        tuple(m.index for m in chosen),
        tuple(m.incarnation for m in chosen),
        "",
        abrupt,
        stop,
    )
