"""The rules of membership are one ordered table, which covers every situation and reason."""

import pytest

from elastic_runtime.agent.membership import RULES, classify, rule_table
from elastic_runtime.agent.membership_reasons import Reason, Situation
from elastic_runtime.agent.membership_view import View
from tests.builders.membership import FOUR, LIMITS, NOW, member, new_coordinator, outside, view


@pytest.mark.parametrize(
    ("job", "situation"),
    [
        pytest.param(new_coordinator([outside(0), *FOUR[1:]]), Situation.TAKING_OVER),
        pytest.param(new_coordinator([outside(0)]), Situation.STARTING),
        pytest.param(view([*FOUR[:3], member(3, finished=True)]), Situation.FINISHING),
        pytest.param(view(FOUR[1:]), Situation.RECOVERING),
        pytest.param(view(FOUR, broke_at=NOW), Situation.RECOVERING),
        pytest.param(view(FOUR, stop=True), Situation.STOPPED),
        pytest.param(view(FOUR, members=()), Situation.STOPPED),
        pytest.param(view([*FOUR[:3], member(3, generation=2)]), Situation.FORMING),
        pytest.param(view(FOUR), Situation.TRAINING),
    ],
)
def test_situation(job: View, situation: Situation) -> None:
    assert classify(job, NOW, LIMITS) is situation


def test_every_situation_has_one_rule_in_the_order_of_its_definition() -> None:
    assert [rule.situation for rule in RULES] == list(Situation)


def test_the_table_has_a_row_for_each_situation_and_reason() -> None:
    header, line, *rows = rule_table().splitlines()
    assert header.count("|") == line.count("|")
    assert len(rows) == sum(len(rule.reasons) for rule in RULES)
    for rule in RULES:
        assert sum(rule.situation.condition in row for row in rows) == 1
    for reason in Reason:
        assert any(f"| {reason.outcome} | {reason.sentence} |" in row for row in rows)
