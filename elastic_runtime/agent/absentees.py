"""PURE. Members that do not report: which are lost, and which may follow another coordinator.

A new record replaces one whose members could elect: until so many of them know it that the others
are no majority, no worker acts on it. So for `cut_off_s` after a link is cut, two coordinators do
not train from the same step. After that they can (decision 13, Cost).
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from elastic_runtime.agent.coordination import life_of
from elastic_runtime.agent.membership_view import Limits, View
from elastic_runtime.messages import Record

# Of the earlier epochs that a record names. A pod that trained before them starts again.
MAX_EPOCHS = 16


def is_majority(count: int, members: int) -> bool:
    return 2 * count > members


def has_ended(view: View, index: int, life: str) -> bool:
    """Whether the agent with this life votes no more, or a last save does not wait for it.

    A terminating pod that has not handed over may be one of a job that is saved. An empty life is
    unknown.
    """
    member = view.members.get(index)
    return life in view.gone or (
        member is not None
        and (
            (life and life_of(member.incarnation) != life)
            or member.finished
            or (member.leaving and member.parked)
        )
    )


def _lives(record: Record) -> Mapping[int, str]:
    """Of the agents of its members."""
    return dict(zip(record.members, map(life_of, record.incarnations), strict=True))


def _earlier_lives(record: Record) -> Mapping[int, str]:
    """Of the agents of the members before, while they could elect without it."""
    return dict(zip(record.electors, record.elector_lives, strict=True))


def _missing(view: View, lives: Mapping[int, str], reporting: Collection[int]) -> list[int]:
    """Those that may still run, and are not among those that report."""
    return [
        index
        for index, life in lives.items()
        if index not in reporting and not has_ended(view, index, life)
    ]


def misses_majority(view: View, now: float, limits: Limits) -> bool:
    """Whether those that do not report could elect another coordinator."""
    recent = {
        pod.index for pod in view.members.values() if now - pod.reported_at < limits.leaderless_s
    }
    electorates = (_lives(view.record), _earlier_lives(view.record))
    return any(is_majority(len(_missing(view, lives, recent)), len(lives)) for lives in electorates)


def without(view: View, index: int) -> View:
    """The view when this pod is known not to run any more."""
    record = view.record
    lives = [*map(life_of, record.incarnations), *record.elector_lives]
    pods = zip([*record.members, *record.electors], lives, strict=True)
    lost = {life for member, life in pods if member == index and life}
    return replace(view, gone=view.gone | lost, astray=view.astray - {index})


def may_have_elected(view: View, lives: Mapping[int, str], missing: Collection[int]) -> bool:
    """Whether another coordinator may train with the missing ones of these members.

    Those that ended may have voted before. If none is missing, nobody is left whom they elected.
    """
    ended = [
        index
        for index, life in lives.items()
        if index not in missing and has_ended(view, index, life)
    ]
    return bool(missing) and is_majority(len(missing) + len(ended), len(lives))


def silent_since(view: View, missing: Collection[int]) -> float:
    """When the last of them reported."""
    last_reports = [view.members[index].reported_at for index in missing if index in view.members]
    return max(last_reports, default=view.started_at)


def may_be_cut_off(view: View, reporting: Collection[int], now: float, cut_off_s: float) -> bool:
    """Whether members that do not report may have elected another coordinator a moment ago."""
    missing = _missing(view, _lives(view.record), reporting)
    is_recent = now - silent_since(view, missing) < cut_off_s
    return is_recent and may_have_elected(view, _lives(view.record), missing)


def announce(view: View, record: Record) -> View:
    """The view with a new record, which no worker acts on before the members before know it."""
    before = _record_before(view)
    if before.epoch == record.epoch:
        epochs, generations = before.earlier_epochs, before.earlier_generations
    else:
        epochs = (*before.earlier_epochs, before.epoch)[-MAX_EPOCHS:]
        generations = (*before.earlier_generations, before.generation)[-MAX_EPOCHS:]
    record = replace(
        record,
        electors=before.members,
        elector_lives=tuple(map(life_of, before.incarnations)),
        earlier_epochs=epochs,
        earlier_generations=generations,
    )
    return replace(view, record=record, broke_at=None)


def _record_before(view: View) -> Record:
    """The record that a new one continues. A replaced pod 0 knows it by the reports only."""
    if view.record.generation:
        return view.record
    newest = max(view.members.values(), key=lambda pod: (pod.trained_epoch, pod.trained_generation))
    pods = [view.members.get(index) for index in newest.members]
    return Record(
        newest.trained_generation,
        newest.members,
        # Nobody with an unknown life can be counted as one that voted.
        tuple(pod.incarnation if pod else "" for pod in pods),
        epoch=newest.trained_epoch if newest.trained_generation else view.epoch,
    )


def confirm(view: View, now: float, limits: Limits) -> View:
    """The view whose record is valid as soon as the members before it can elect nobody else."""
    record = view.record
    lives = _earlier_lives(record)
    unaware = {
        index
        for index, life in lives.items()
        if not (has_ended(view, index, life) or _knows(view, index))
    }
    if not lives:
        return view
    valid = replace(view, record=replace(record, electors=(), elector_lives=()))
    if not may_have_elected(view, lives, unaware):
        return valid
    if now - silent_since(view, unaware) < limits.cut_off_s:
        return view
    return replace(valid, astray=view.astray | unaware)


def _knows(view: View, index: int) -> bool:
    """Whether this pod, which has not ended, has reported that it knows the record."""
    member = view.members.get(index)
    return (
        member is not None and (member.record_epoch, member.record_generation) >= view.record.order
    )
