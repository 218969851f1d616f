"""Writes the dashboards for Grafana: `python -m deploy.monitoring.generate`."""

import json
from pathlib import Path

from cede.api.objects import Json
from deploy.monitoring.dashboards import DASHBOARDS, Dashboard, Panel

FOLDER = Path(__file__).parents[1] / "components" / "monitoring"
SCHEMA_VERSION = 41
# Of Grafana's grid of 24 columns.
WIDTH = 12
HEIGHT = 8
# The curve is the trend; the table has what holds now, and the mean of the chosen time.
LEGEND = {
    "displayMode": "table",
    "placement": "bottom",
    "showLegend": True,
    "calcs": ["lastNotNull", "mean"],
}
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def files() -> dict[str, str]:
    """Name in FOLDER → text."""
    return {
        f"{name}.json": json.dumps(_document(name, dashboard), indent=1) + "\n"
        for name, dashboard in DASHBOARDS.items()
    }


def _document(name: str, dashboard: Dashboard) -> Json:
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    variables = [_variable(*item) for item in dashboard.variables.items()]
    return {
        "uid": f"cede-{name}",
        "title": dashboard.title,
        "tags": ["cede"],
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source, *variables]},
        "panels": [_panel(index, panel) for index, panel in enumerate(dashboard.panels)],
    }


def _variable(name: str, query: str) -> Json:
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        # when the range of time changes
        "refresh": 2,
        "sort": 1,
    }


def _panel(index: int, panel: Panel) -> Json:
    targets = [
        {"refId": chr(ord("A") + number), "expr": expression, "legendFormat": legend}
        for number, (legend, expression) in enumerate(panel.queries.items())
    ]
    place = {"x": WIDTH * (index % 2), "y": HEIGHT * (index // 2), "w": WIDTH, "h": HEIGHT}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": LEGEND},
        "targets": targets,
    }


if __name__ == "__main__":
    for file, text in files().items():
        (FOLDER / file).write_text(text)
