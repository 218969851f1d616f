"""A real Prometheus scrapes the cluster during a take-back: panels and alerts have their data."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cede.api import names
from deploy.monitoring.dashboards import DASHBOARDS
from tests.e2e.conftest import (
    CLAIM,
    EXAMPLES,
    RESEARCH,
    claim,
    create,
    let_claim_run,
    runs,
    sleeper,
)
from tests.e2e.training import Training
from tests.harness.prometheus import Prometheus, scraping
from tests.marks import LONG

pytestmark = [
    pytest.mark.cluster,
    LONG,
]
# the fixture of tests/conftest.py
Cluster = Any
WITHOUT_DATA = {
    "DCGM_FI_DEV_GPU_UTIL": "there is no GPU, and no exporter",
    "cede:devices_busy": "the same",
    "kueue_preempted_workloads_total": "while Cede leads, Kueue preempts nothing",
    'reason="Preempted"': "the same",
    "cede_cache_unreadable_objects": "everything can be read",
    "cede_failed_passes_total": "no pass fails",
}
"""Metrics that nothing here has."""
CHOICES = {
    "resource": names.GPU,
    "team": RESEARCH,
    "namespace": RESEARCH,
    "training_job": "gpt",
}
"""Of the variables of the dashboards."""
LABEL_VALUES = re.compile(r"label_values\((.+), (\w+)\)")


@pytest.fixture(scope="module")
def prometheus(teams: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It has seen an elastic job that gave half of its pods back, a job that was stopped by hand
    and jobs of both teams that have ended."""
    gpt = Training(teams, RESEARCH, "gpt")
    with scraping(teams, tmp_path_factory.mktemp("prometheus")) as running:
        create(teams, sleeper(RESEARCH, "stopped", 1))
        teams.until(lambda: runs(teams, RESEARCH, "stopped"), "the other job to run", 90)
        stop(teams, "stopped")
        # Prometheus does not see the first one that ends: its series begins at 1
        for name, seconds in (("first", 5), ("second", 10)):
            create(teams, sleeper(RESEARCH, name, 1, seconds))
        ended = ("-n", RESEARCH, "--for=condition=Complete", "--timeout=180s")
        teams.kubectl("wait", "job/first", "job/second", *ended)
        # it ends by itself
        teams.kubectl("apply", "-f", str(EXAMPLES / "claim.yaml"))
        done = ("job/inference", "-n", "vision", "--for=condition=Complete", "--timeout=180s")
        teams.kubectl("wait", *done)
        teams.kubectl("apply", "-f", str(EXAMPLES / "gpt" / "job.yaml"))
        teams.until(gpt.trains_on(8), "gpt to train on all", 300)
        claim(teams, 4)
        let_claim_run(teams)
        teams.until(gpt.trains_on(4), "gpt to train on half", 120)
        yield running


def stop(cluster: Cluster, name: str) -> None:
    """As a user does: its Workload is not active any more."""
    for workload in cluster.kubectl_json("get", "workloads", "-n", RESEARCH)["items"]:
        if name in workload["metadata"]["name"]:
            inactive = ("--type=merge", "-p", '{"spec": {"active": false}}')
            cluster.kubectl(
                "patch", "workload", workload["metadata"]["name"], "-n", RESEARCH, *inactive
            )


def queries() -> list[tuple[str, str]]:
    """(where it stands, what it asks), with the choices of a user."""
    questions = []
    for dashboard in DASHBOARDS.values():
        for panel in dashboard.panels:
            for legend, text in panel.queries.items():
                for variable, value in CHOICES.items():
                    text = text.replace(f"${variable}", value)
                questions.append((f"{dashboard.title}: {panel.title}: {legend}", text))
    return questions


def has_data_here(text: str) -> bool:
    return not any(metric in text for metric in WITHOUT_DATA)


def test_every_panel_has_data(prometheus: Prometheus, teams: Cluster) -> None:
    expected = {place: text for place, text in queries() if has_data_here(text)}
    assert len(expected) > 30

    def all_have_data() -> bool:
        empty = [place for place, text in expected.items() if not prometheus.query(text)]
        assert not empty, "no data: " + "; ".join(empty)
        return True

    # rates need two samples
    teams.until(all_have_data, "data in every panel", 60)


def test_what_has_no_data_here_is_a_valid_query(prometheus: Prometheus) -> None:
    for _, text in queries():
        prometheus.query(text)


@pytest.mark.parametrize("name", sorted(DASHBOARDS))
def test_a_user_can_choose_what_a_dashboard_shows(prometheus: Prometheus, name: str) -> None:
    for variable, text in DASHBOARDS[name].variables.items():
        match = LABEL_VALUES.fullmatch(text)
        assert match, text
        metric, label = match.groups()
        metric = metric.replace("$namespace", RESEARCH)
        values = {series["metric"].get(label) for series in prometheus.query(metric)}
        assert CHOICES[variable] in values, (variable, values)


def test_the_figures_of_a_team_are_those_of_its_queue(
    prometheus: Prometheus, teams: Cluster
) -> None:
    def figure(record: str, team: str) -> float:
        chosen = f'cede:{record}{{cluster_queue="{team}", resource="{names.GPU}"}}'
        (series,) = prometheus.query(chosen)
        return float(series["value"][1])

    def halves() -> bool:
        figures = {
            (record, team): figure(record, team)
            for record in ("quota_owned", "quota_used", "quota_borrowed")
            for team in (RESEARCH, CLAIM[0])
        }
        for team in (RESEARCH, CLAIM[0]):
            assert figures["quota_owned", team] == figures["quota_used", team] == 4, figures
            assert figures["quota_borrowed", team] == 0, figures
        return True

    teams.until(halves, "both halves to be used", 60)


def test_the_past_shows_who_lent_and_who_gave(prometheus: Prometheus) -> None:
    lent = f'cede:quota_lent{{cluster_queue="{CLAIM[0]}", resource="{names.GPU}"}}'
    (most,) = prometheus.query(f"max_over_time({lent}[1h])")
    assert float(most["value"][1]) == 4, "gpt trained on the half of the other team"
    gave = prometheus.query(f'cede_targets_total{{queue="{RESEARCH}"}} > 0')
    # by a shrink, or by a stop if the pods that stay would hold both nodes
    assert {series["metric"]["ceded"] for series in gave} == {"true"}


def test_a_namespace_is_that_of_its_team(prometheus: Prometheus) -> None:
    teams = prometheus.query("cede_team_info and on (namespace, pod) cede_leading == 1")
    spaces = {series["metric"]["queue"]: series["metric"]["team_namespace"] for series in teams}
    assert spaces.items() >= {RESEARCH: RESEARCH, CLAIM[0]: CLAIM[0]}.items()


def test_every_rule_can_be_evaluated_and_no_grave_alert_fires(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.read("rules")["groups"] for rule in group["rules"]]
    assert len(rules) >= 15
    assert {rule["health"] for rule in rules} == {"ok"}, rules
    grave = [
        rule["name"]
        for rule in rules
        if rule.get("labels", {}).get("severity") == "critical" and rule["state"] == "firing"
    ]
    assert not grave


def test_every_pod_of_the_job_and_every_component_is_scraped_once(prometheus: Prometheus) -> None:
    up = [series["metric"] for series in prometheus.query("up == 1")]
    pods = [metric["pod"] for metric in up if metric.get("training_job") == "gpt"]
    assert len(pods) == len(set(pods)) == 4, up
    components = sorted(metric["job"] for metric in up if metric.get("namespace") == "cede-system")
    assert components == ["cede-quota-controller", "cede-scheduler", "cede-webhook"]
