"""Every situation and every reason has one sentence, and no two are the same."""

from elastic_runtime.agent.membership import RULES
from elastic_runtime.agent.membership_reasons import (
    AT_ONCE,
    AT_STEP_END,
    FROM_SAVE,
    STOP,
    WAIT,
    Reason,
    Situation,
)


def test_every_reason_belongs_to_a_rule() -> None:
    assert {reason for rule in RULES for reason in rule.reasons} == set(Reason)


def test_outcome_is_one_of_five() -> None:
    assert {reason.outcome for reason in Reason} == {WAIT, AT_STEP_END, AT_ONCE, FROM_SAVE, STOP}


def test_sentences_are_whole_and_distinct() -> None:
    sentences = [reason.sentence for reason in Reason]
    assert len(set(sentences)) == len(sentences)
    assert all(sentence[0].isupper() and sentence.endswith(".") for sentence in sentences)
    conditions = [situation.condition for situation in Situation]
    assert len(set(conditions)) == len(conditions)
