"""Every alert has series under which it fires, and series under which it does not: rules_test.yaml.
So has every record its figure.

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
OF_ALERTS = [case for case in TABLE["tests"] if "alert_rule_test" in case]
OF_RECORDS = [case for case in TABLE["tests"] if "promql_expr_test" in case]


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
    for case in OF_ALERTS:
        for entry in case["alert_rule_test"]:
            after_s = seconds(entry["eval_time"])
            fires = bool(entry["exp_alerts"])
            yield Expectation(case["name"], entry["alertname"], after_s, fires)


def expected(alert: str, *, fires: bool) -> list[Expectation]:
    return [item for item in expectations() if item.alert == alert and item.fires is fires]


def metrics_of(expression: str) -> str:
    """The expression, with those of the records that it reads."""
    read = [text for record, text in RECORDS.items() if record in expression]
    return expression + "".join(metrics_of(text) for text in read)


def names_in(case: Any) -> set[str]:
    return {series["series"].partition("{")[0] for series in case["input_series"]}


def not_read(names: set[str], expression: str) -> list[str]:
    text = metrics_of(expression)
    return [name for name in names if not re.search(rf"\b{name}\b", text)]


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


@pytest.mark.parametrize("case", OF_ALERTS, ids=lambda case: case["name"])
def test_a_case_has_series_that_its_alert_reads(case: Any) -> None:
    """A misspelt name would leave the alert silent for the wrong reason."""
    (alert,) = {entry["alertname"] for entry in case["alert_rule_test"]}
    assert not not_read(names_in(case), ALERTS[alert]["expr"])


@pytest.mark.parametrize("case", OF_RECORDS, ids=lambda case: case["name"])
def test_a_case_has_series_that_its_records_read(case: Any) -> None:
    asked = " ".join(entry["expr"] for entry in case["promql_expr_test"])
    assert not not_read(names_in(case), asked)


@pytest.mark.parametrize("record", sorted(RECORDS))
def test_every_record_has_a_figure_or_is_read_by_an_alert(record: str) -> None:
    entries = [entry for case in OF_RECORDS for entry in case["promql_expr_test"]]
    by_figure = any(record in entry["expr"] and entry["exp_samples"] for entry in entries)
    assert by_figure or any(record in alert["expr"] for alert in ALERTS.values())
