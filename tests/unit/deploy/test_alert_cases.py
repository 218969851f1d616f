"""Every alert has series under which it fires, and series under which it does not: rules_test.yaml.

promtool evaluates them in tests/e2e/test_alerts.py.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from deploy.monitoring.generate import FOLDER
from tests.unit.deploy.test_monitoring import ALERTS, ALL_RULES

TABLE = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())
UNIT_S = {"m": 60, "h": 3600}
RECORDS = {rule["record"]: rule["expr"] for rule in ALL_RULES if "record" in rule}


@dataclass(frozen=True)
class Expectation:
    """`case` is the name of the series under which it holds."""

    case: str
    alert: str
    after_s: int
    fires: bool


def seconds(duration: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([mh])", duration).groups()  # type: ignore[union-attr]
    return int(number) * UNIT_S[unit]


def expectations() -> Iterator[Expectation]:
    for case in TABLE["tests"]:
        for entry in case["alert_rule_test"]:
            after_s = seconds(entry["eval_time"])
            fires = bool(entry["exp_alerts"])
            yield Expectation(case["name"], entry["alertname"], after_s, fires)


def expected(alert: str, *, fires: bool) -> list[Expectation]:
    return [item for item in expectations() if item.alert == alert and item.fires is fires]


def metrics_of(alert: str) -> str:
    """Its expression, with those of the records that it reads."""
    text = str(ALERTS[alert]["expr"])
    return text + "".join(expression for record, expression in RECORDS.items() if record in text)


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(alert: str) -> None:
    firing = {item.case for item in expected(alert, fires=True)}
    assert firing, f"{alert} fires in no case of rules_test.yaml"
    silent = {item.case for item in expected(alert, fires=False)} - firing
    assert silent, f"no case of rules_test.yaml has series under which {alert} does not fire"


@pytest.mark.parametrize("alert", sorted(name for name, rule in ALERTS.items() if "for" in rule))
def test_an_alert_is_seen_not_to_fire_before_its_time(alert: str) -> None:
    wait_s = seconds(ALERTS[alert]["for"])
    silent = {(item.case, item.after_s) for item in expected(alert, fires=False)}
    firing = expected(alert, fires=True)
    assert min(item.after_s for item in firing) >= wait_s
    assert any((item.case, item.after_s - 60) in silent for item in firing)


def test_the_cases_are_of_alerts_that_exist() -> None:
    assert {item.alert for item in expectations()} == ALERTS.keys()


@pytest.mark.parametrize("case", TABLE["tests"], ids=lambda case: case["name"])
def test_a_case_has_series_that_its_alert_reads(case: Any) -> None:
    """A misspelt name would leave the alert silent for the wrong reason."""
    (alert,) = {entry["alertname"] for entry in case["alert_rule_test"]}
    names = {series["series"].partition("{")[0] for series in case["input_series"]}
    assert not [name for name in names if not re.search(rf"\b{name}\b", metrics_of(alert))]
