"""PURE. What the coordinator decides in each situation of the job's membership, and why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from elastic_runtime.agent.absentees import may_be_cut_off
from elastic_runtime.agent.coordination import life_of
from elastic_runtime.agent.membership_reasons import Reason
from elastic_runtime.agent.membership_view import Limits, Member, View, are_enough
from elastic_runtime.messages import Record


@dataclass(frozen=True, slots=True)
class Decision:
    # The next generation, without its store; None to leave things as they are.
    record: Record | None
    reason: Reason


@dataclass(frozen=True, slots=True)
class Survey:
    """The view, and what follows from it at `now`."""

    view: View
    now: float
    limits: Limits
    # Pods that report and have not finished, by index.
    alive: Mapping[int, Member]
    # Members of the current generation that are alive and were not restarted, by index.
    present: Mapping[int, Member]

    @property
    def settled(self) -> bool:
        """Whether no pod has changed for a while."""
        return self.now - self.view.changed_at >= self.limits.settle_s


def take_survey(view: View, now: float, limits: Limits) -> Survey:
    alive = {
        member.index: member
        for member in view.members.values()
        if now - member.reported_at <= limits.silent_s and not member.finished
    }
    present = {
        index: alive[index]
        for index, incarnation in zip(view.record.members, view.record.incarnations, strict=True)
        if index in alive and alive[index].incarnation == incarnation
    }
    return Survey(view, now, limits, alive, present)


def wait(reason: Reason) -> Decision:
    return Decision(None, reason)


def new_generation(
    survey: Survey,
    reason: Reason,
    members: Iterable[Member],
    *,
    abrupt: bool = False,
    stop: bool = False,
) -> Decision:
    """A generation above every number that any pod knows."""
    ordered = sorted(members, key=lambda member: member.index)
    known = [max(pod.newest_generation, pod.generation) for pod in survey.view.members.values()]
    record = Record(
        generation=max([survey.view.record.generation, *known]) + 1,
        members=tuple(member.index for member in ordered),
        incarnations=tuple(member.incarnation for member in ordered),
        abrupt=abrupt,
        stop=stop,
        epoch=survey.view.epoch,
    )
    return Decision(record, reason)


# --- the coordinator was elected ------------------------------------------------------------------


def succeeds(survey: Survey) -> bool:
    """Whether members of the record, which is an earlier coordinator's, have yet to report."""
    view = survey.view
    members = zip(view.record.members, map(life_of, view.record.incarnations), strict=True)
    is_unknown = any(index not in view.members and life not in view.gone for index, life in members)
    wait_s = survey.limits.first_reports_s(len(view.record.members))
    return is_unknown and survey.now - view.started_at < wait_s


# --- no generation is known -----------------------------------------------------------------------


def training(survey: Survey) -> list[Member]:
    """The pods that train, in any generation."""
    return [pod for pod in survey.alive.values() if pod.generation > 0 and not pod.parked]


def take_over(survey: Survey) -> Decision:
    """The members of the newest generation that trains continue."""
    trainers = training(survey)
    newest = max(trainers, key=lambda member: (member.trained_epoch, member.generation))
    # Pod 0's own processes were lost with it.
    missing = set(newest.members) - survey.view.members.keys() - {0}
    is_early = survey.now - survey.view.started_at < survey.limits.gather_s
    if (missing and is_early) or _awaits_newest(survey):
        return wait(Reason.MEMBERS_MISSING)
    members = [
        pod
        for pod in trainers
        if (pod.trained_epoch, pod.generation) == (newest.trained_epoch, newest.generation)
    ]
    return new_generation(survey, Reason.TRAINING_CONTINUES, members, abrupt=True)


def _awaits_newest(survey: Survey) -> bool:
    """Whether no pod reports that knows the newest generation, of which pod 0 has heard."""
    known = [(pod.record_epoch, pod.record_generation) for pod in survey.alive.values()]
    is_early = survey.now - survey.view.started_at < survey.limits.cut_off_s
    return is_early and max(known, default=(0, 0)) < survey.view.heard


def start(survey: Survey) -> Decision:
    if survey.now - survey.view.started_at < survey.limits.settle_s or _awaits_newest(survey):
        return wait(Reason.GATHERING)
    return start_from_save(survey)


def start_from_save(survey: Survey) -> Decision:
    """All pods start from the newest checkpoint as soon as the smallest size is there.

    With a requested size of 0 none starts: the job is stopped.
    """
    view = survey.view
    if view.wanted == 0:
        ready_to_park = [pod for pod in survey.alive.values() if pod.ready]
        if not ready_to_park:
            return wait(Reason.NOTHING_TO_STOP)
        return new_generation(survey, Reason.STARTS_STOPPED, ready_to_park, stop=True)
    # These members have the state, though they may not be wanted any more.
    holders = {
        index
        for index in view.record.members
        if index in survey.alive and not survey.alive[index].parked
    }
    ready = [
        pod
        for pod in survey.alive.values()
        if pod.ready
        and not pod.leaving
        and (view.wanted is None or pod.index < view.wanted or pod.index in holders)
    ]
    if not are_enough(view, {pod.index for pod in ready}):
        return wait(Reason.TOO_FEW_PODS)
    if not survey.settled:
        return wait(Reason.SETTLING)
    return new_generation(survey, Reason.STARTS_FROM_SAVE, ready)


# --- a member was lost ----------------------------------------------------------------------------


def loss_is_certain(survey: Survey) -> bool:
    """Whether a member of the current generation is lost, with a state that was not saved."""
    record = survey.view.record
    if record.stop and all(member.parked for member in survey.present.values()):
        # What is lost now was saved before.
        return False
    known = survey.view.members
    return any(
        index not in survey.present and not (record.stop and index in known and known[index].parked)
        for index in record.members
    )


def recover(survey: Survey) -> Decision:
    """The present members continue, and those that were about to leave with this generation."""
    present = survey.present
    reporting_since = survey.now - survey.limits.silent_s
    broke_at = survey.view.broke_at
    if broke_at is not None:
        reporting = {
            index: member for index, member in present.items() if member.reported_at >= broke_at
        }
        is_any_silent = len(reporting) < len(present)
        if is_any_silent and survey.now - broke_at >= survey.limits.silent_after_break_s:
            present = reporting
            reporting_since = broke_at
        elif is_any_silent and not loss_is_certain(survey):
            # The loss is known as soon as all others, or the agent of the lost one, have reported.
            return wait(Reason.LOSS_UNKNOWN)
    if _may_be_cut_off(survey, reporting_since):
        return wait(Reason.CUT_OFF)
    since = _loss_at(survey)
    behind = [pod for pod in _behind(survey) if pod.index not in present]
    hand_over_is_open = any(pod.broken != survey.view.record.generation for pod in behind)
    if hand_over_is_open and survey.now - since < survey.limits.silent_after_break_s:
        return wait(Reason.HAND_OVER_UNKNOWN)
    # These pods did not hand over, and what they hold may be nowhere else. A terminating pod
    # continues too; it leaves when it has handed over.
    holders = {pod.index for pod in behind if pod.reported_at >= since}
    survivors = [survey.alive[index] for index in {*present, *holders}]
    if not survivors:
        return new_generation(survey, Reason.STATE_LOST, ())
    return new_generation(survey, Reason.SURVIVORS_CONTINUE, survivors, abrupt=True)


def _may_be_cut_off(survey: Survey, reporting_since: float) -> bool:
    """Whether members that were silent since then may follow another coordinator."""
    pods = survey.view.members.values()
    reporting = {pod.index for pod in pods if pod.reported_at >= reporting_since}
    return may_be_cut_off(survey.view, reporting, survey.now, survey.limits.cut_off_s)


def _loss_at(survey: Survey) -> float:
    """When the generation broke, or when the newest of its members was restarted."""
    view = survey.view
    if view.broke_at is not None:
        return view.broke_at
    known = [view.members[index] for index in view.record.members if index in view.members]
    return max((pod.first_reported_at for pod in known), default=0.0)


def _behind(survey: Survey) -> list[Member]:
    """The pods in the newest generation that trains, while no pod has formed the current one."""
    trainers = training(survey)
    newest = max((pod.generation for pod in trainers), default=0)
    return [pod for pod in trainers if pod.generation == newest < survey.view.record.generation]


# --- the job is stopped ---------------------------------------------------------------------------


def restart(survey: Survey) -> Decision:
    stops = survey.view.record.stop
    if stops and survey.view.wanted == 0:
        return wait(Reason.STAYS_STOPPED)
    members = survey.present.values()
    if any(member.leaving and not member.parked for member in members):
        return wait(Reason.STILL_SAVING)
    if not stops and _behind(survey):
        return wait(Reason.LOSS_UNNOTICED)
    return start_from_save(survey)


# --- the job trains -------------------------------------------------------------------------------


def resize(survey: Survey) -> Decision:
    """At the end of a step: the members that should train, if they are others than now."""
    view = survey.view
    target = _target(survey)
    if not target:
        if not survey.settled and view.wanted != 0:
            return wait(Reason.SETTLING)
        members = survey.present.values()
        return new_generation(survey, Reason.ALL_MUST_LEAVE, members, stop=True)
    indexes = sorted(member.index for member in target)
    if indexes == list(view.record.members):
        return wait(Reason.UNCHANGED)
    only_joins = set(view.record.members) <= set(indexes)
    if only_joins and _preparing(survey) and survey.now - view.changed_at < survey.limits.gather_s:
        return wait(Reason.PODS_PREPARE)
    must_shrink = view.wanted is not None and any(i >= view.wanted for i in view.record.members)
    # All requested pods are there: no others will come.
    is_complete = indexes == list(range(view.wanted or 0))
    others_may_follow = only_joins or any(pod.leaving for pod in survey.alive.values())
    if others_may_follow and not (survey.settled or must_shrink or is_complete):
        return wait(Reason.SETTLING)
    return new_generation(survey, Reason.RESIZED, target)


def _candidates(survey: Survey) -> list[Member]:
    """The pods that the requested size includes and that do not leave."""
    wanted = survey.view.wanted
    return [
        pod
        for pod in survey.alive.values()
        if not pod.leaving and (wanted is None or pod.index < wanted)
    ]


def _preparing(survey: Survey) -> list[Member]:
    """The candidates that cannot join yet."""
    return [pod for pod in _candidates(survey) if not pod.ready and pod.index not in survey.present]


def _target(survey: Survey) -> list[Member]:
    """The pods that should train; empty if the job must stop."""
    members = list(survey.present.values())
    target = [pod for pod in _candidates(survey) if pod.ready or pod.index in survey.present]
    if not target and _preparing(survey):
        # A pod that is to stay is starting again. Until then the others keep the state.
        target = [member for member in members if not member.leaving]
    if target and not {pod.index for pod in target} & {*survey.view.record.members}:
        # The members keep the state until the others have it.
        target = [*target, *members]
    return target
