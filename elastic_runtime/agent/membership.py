"""PURE. Which pods train together next, and why: decided from the last report of every pod.

A *generation* is one membership of the job. Generations are numbered, and numbers only grow: a
process that receives a newer generation drops the older one.
"""

from collections.abc import Callable
from dataclasses import dataclass

from elastic_runtime.agent.membership_decisions import (
    Decision,
    Survey,
    loss_is_certain,
    recover,
    resize,
    restart,
    start,
    succeeds,
    take_over,
    take_survey,
    training,
    wait,
)
from elastic_runtime.agent.membership_reasons import Reason, Situation
from elastic_runtime.agent.membership_view import Limits, View


@dataclass(frozen=True, slots=True)
class Rule:
    situation: Situation
    applies: Callable[[Survey], bool]
    decide: Callable[[Survey], Decision]
    # All that `decide` may give.
    reasons: tuple[Reason, ...]


def plan(view: View, now: float, limits: Limits) -> Decision:
    """What the coordinator should do at `now`, and why."""
    survey = take_survey(view, now, limits)
    return _rule_for(survey).decide(survey)


def classify(view: View, now: float, limits: Limits) -> Situation:
    return _rule_for(take_survey(view, now, limits)).situation


def rule_table() -> str:
    """All rules as a Markdown table, in the order in which they are tried."""
    lines = ["| Situation | Decision | Reason |", "|---|---|---|"]
    for rule in RULES:
        name = rule.situation.name.lower().replace("_", " ")
        title = f"**{name}**: {rule.situation.condition}"
        for reason in rule.reasons:
            lines.append(f"| {title} | {reason.outcome} | {reason.sentence} |")
            title = ""
    return "\n".join(lines) + "\n"


def _rule_for(survey: Survey) -> Rule:
    return next(rule for rule in RULES if rule.applies(survey))


START_REASONS = (
    Reason.NOTHING_TO_STOP,
    Reason.STARTS_STOPPED,
    Reason.TOO_FEW_PODS,
    Reason.SETTLING,
    Reason.STARTS_FROM_SAVE,
)
RULES = (
    Rule(
        Situation.SUCCEEDING,
        succeeds,
        lambda _: wait(Reason.MEMBERS_UNKNOWN),
        (Reason.MEMBERS_UNKNOWN,),
    ),
    Rule(
        Situation.ANNOUNCING,
        lambda survey: bool(survey.view.record.electors),
        lambda _: wait(Reason.UNANNOUNCED),
        (Reason.UNANNOUNCED,),
    ),
    Rule(
        Situation.TAKING_OVER,
        lambda survey: survey.view.record.generation == 0 and bool(training(survey)),
        take_over,
        (Reason.MEMBERS_MISSING, Reason.TRAINING_CONTINUES),
    ),
    Rule(
        Situation.STARTING,
        lambda survey: survey.view.record.generation == 0,
        start,
        (Reason.GATHERING, *START_REASONS),
    ),
    Rule(
        Situation.FINISHING,
        lambda survey: any(member.finished for member in survey.view.members.values()),
        lambda _: wait(Reason.FINISHED),
        (Reason.FINISHED,),
    ),
    Rule(
        Situation.RECOVERING,
        lambda survey: loss_is_certain(survey) or survey.view.broke_at is not None,
        recover,
        (
            Reason.LOSS_UNKNOWN,
            Reason.CUT_OFF,
            Reason.HAND_OVER_UNKNOWN,
            Reason.SURVIVORS_CONTINUE,
            Reason.STATE_LOST,
        ),
    ),
    Rule(
        Situation.STOPPED,
        lambda survey: survey.view.record.stop or not survey.present,
        restart,
        (
            Reason.STAYS_STOPPED,
            Reason.STILL_SAVING,
            Reason.LOSS_UNNOTICED,
            *START_REASONS,
        ),
    ),
    Rule(
        Situation.FORMING,
        lambda survey: any(
            member.generation != survey.view.record.generation for member in survey.present.values()
        ),
        lambda _: wait(Reason.STILL_FORMING),
        (Reason.STILL_FORMING,),
    ),
    Rule(
        Situation.TRAINING,
        lambda _: True,
        resize,
        (
            Reason.ALL_MUST_LEAVE,
            Reason.UNCHANGED,
            Reason.PODS_PREPARE,
            Reason.SETTLING,
            Reason.RESIZED,
        ),
    ),
)
