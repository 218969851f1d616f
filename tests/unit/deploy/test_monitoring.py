"""The alerts and dashboards ask for metrics that exist, and every alert has its runbook."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from prometheus_client import Gauge

from deploy.monitoring import generate
from deploy.monitoring.dashboards import DASHBOARDS
from elastic_runtime import contract
from quota_controller import metrics
from tests.unit.docs.pages import DOCS

RULES = yaml.safe_load((generate.FOLDER / "rules.yaml").read_text())
ALL_RULES: list[dict[str, Any]] = [
    rule for group in RULES["spec"]["groups"] for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in ALL_RULES if "alert" in rule}
RUNBOOKS = (DOCS / "runbooks.md").read_text()
OURS = re.compile(r"\b(?:cede_|elastic_runtime_)\w+|\bcede:\w+(?::\w+)*")
SERIES_OF_HISTOGRAM = re.compile(r"_(bucket|sum|count)$")


def expressions() -> Iterator[str]:
    for rule in ALL_RULES:
        yield rule["expr"]
    for dashboard in DASHBOARDS.values():
        yield from dashboard.variables.values()
        for panel in dashboard.panels:
            yield from panel.queries.values()


def known_metrics() -> set[str]:
    pages = (DOCS / page for page in ("metrics.md", "runtime-reference.md"))
    documented = {
        name for page in pages for name in re.findall(r"^\| `(\w+)`", page.read_text(), re.M)
    }
    return documented | {rule["record"] for rule in ALL_RULES if "record" in rule}


def test_the_committed_dashboards_are_the_generated_ones() -> None:
    for name, text in generate.files().items():
        assert (generate.FOLDER / name).read_text() == text, (
            f"{name} is old: run python -m deploy.monitoring.generate"
        )


def test_every_dashboard_is_in_the_config_map() -> None:
    settings = yaml.safe_load((generate.FOLDER / "kustomization.yaml").read_text())
    (config_map,) = settings["configMapGenerator"]
    assert {*config_map["files"]} == {*generate.files()}


def test_jobs_are_scraped_at_the_port_of_the_runtime() -> None:
    (jobs,) = (
        monitor["spec"]
        for monitor in yaml.safe_load_all((generate.FOLDER / "monitors.yaml").read_text())
        if monitor["kind"] == "ScrapeConfig"
    )
    (address,) = (
        rule["replacement"]
        for rule in jobs["relabelings"]
        if rule.get("targetLabel") == "__address__"
    )
    assert address == f"$1:{contract.PORT}"


def test_every_metric_of_cede_that_is_asked_for_is_documented() -> None:
    asked = {
        SERIES_OF_HISTOGRAM.sub("", name) for text in expressions() for name in OURS.findall(text)
    }
    assert len(asked) > 20
    assert asked - known_metrics() == set()


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_every_alert_has_a_runbook_a_severity_and_a_summary(alert: str) -> None:
    annotations = ALERTS[alert]["annotations"]
    assert annotations["runbook_url"] == f"docs/runbooks.md#{alert.lower()}"
    assert f"\n## {alert}\n" in RUNBOOKS
    assert ALERTS[alert]["labels"]["severity"] in ("info", "warning", "critical")
    assert annotations["summary"].endswith(".")


def test_queries_of_the_quota_controller_take_the_replica_that_leads() -> None:
    """One that does not lead any more shows what it last knew."""
    gauges = {
        family.name
        for value in vars(metrics).values()
        if isinstance(value, Gauge)
        for family in value.collect()
    }
    answers = re.findall(r"^\| [^|]+\? \| (.+) \|$", (DOCS / "metrics.md").read_text(), re.M)
    asked = [
        (match.group(), text[match.end() :])
        for text in [*expressions(), *answers]
        for match in OURS.finditer(text)
        if match.group() in gauges
    ]
    assert {name for name, _ in asked} == gauges
    leads = re.compile(r" and (on \(namespace, pod\) )?cede_leading == 1")
    assert [name for name, rest in asked if not leads.match(rest)] == []


def test_a_ledger_that_is_down_is_one_that_is_behind() -> None:
    """It has no series then, so the alert needs the last value that it had."""
    expression = ALERTS["CedeLedgerBehind"]["expr"]
    assert "max_over_time(cede_ledger_written_timestamp_seconds[1d])" in expression


def test_every_runbook_is_that_of_an_alert() -> None:
    assert set(re.findall(r"^## (\w+)$", RUNBOOKS, re.M)) == ALERTS.keys()


def test_no_panel_asks_for_a_team_or_job_that_its_dashboard_does_not_let_choose() -> None:
    for dashboard in DASHBOARDS.values():
        asked = "\n".join(text for panel in dashboard.panels for text in panel.queries.values())
        assert set(re.findall(r"\$(\w+)", asked)) <= dashboard.variables.keys()
