"""The tables of the metrics and of their labels, from what the controllers register."""

import inspect
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any, get_args

from annotated_types import MaxLen
from prometheus_client import REGISTRY
from pydantic import BaseModel

from cede.api import objects
from cede.api.allocation import AllocationSpec
from cede.api.alternative import How
from cede.api.cession import ENDED
from cede.api.instance_type import InstanceType
from cede.api.objects import Kind
from cede.api.reasons import CessionReason
from cede.api.wait_reasons import WaitReason
from cede.dashboard import server
from cede.dashboard.metrics import OTHER, Limit, Outcome
from cede.dashboard.people import access as people_access
from cede.kube import errors
from elastic_runtime.agent.metrics import CAUSES, Tally, format_job, format_pod
from elastic_runtime.contract import Status
from scheduler.actions import Action
from webhook.server import MUTATE, VALIDATE

COMPONENTS = ("scheduler", "quota_controller", "webhook", "ledger", "cede.dashboard")


class GrowsWith(StrEnum):
    """What else than code adds values to a label: never jobs, pods or users."""

    TEAMS = "teams: each has one ClusterQueue"
    TYPES = "the policy's instance types: the resources of their accelerators"


@dataclass(frozen=True)
class ForEach:
    """For each value of what the metric grows with, at most so many."""

    most: int
    why: str


@dataclass(frozen=True)
class Fixed:
    """All values are in the code."""

    values: Collection[str]
    # what they are, and the table has their number; empty: the table names them
    what: str = ""


def _most_of(model: type[BaseModel], field: str) -> int:
    """How many entries the API server accepts."""
    (limit,) = (entry for entry in model.model_fields[field].metadata if isinstance(entry, MaxLen))
    return int(limit.max_length)


KINDS = {kind.plural for kind in vars(objects).values() if isinstance(kind, Kind)}
ACTIONS = {action.__name__ for action in get_args(Action)} | {"GrowJob"}
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type)}
ROUTES = {
    route
    for module in (server, people_access)
    for route in re.findall(r"web\.(?:get|post)\((.+?), self", inspect.getsource(module))
}
TYPES_OF_A_TEAM = _most_of(AllocationSpec, "quotas")
# an accelerator, its partitions; CPU and memory of all types are the same resources
RESOURCES_OF_A_TEAM = TYPES_OF_A_TEAM * (1 + _most_of(InstanceType, "partitions")) + 2
BOUNDS: Mapping[tuple[str, str], Fixed | GrowsWith | ForEach] = {
    ("cede_admitted_workloads", "queue"): GrowsWith.TEAMS,
    ("cede_budget_hours", "limit"): Fixed(("soft", "hard")),
    ("cede_budget_hours", "team"): GrowsWith.TEAMS,
    ("cede_budget_used_hours", "team"): GrowsWith.TEAMS,
    ("cede_cache_unreadable_objects", "kind"): Fixed(KINDS, "kinds of objects"),
    ("cede_cession_stage_seconds", "stage"): Fixed(
        ("asked", "ceded", "released", "admitted", "ready")
    ),
    ("cede_cessions_total", "outcome"): Fixed(ENDED),
    ("cede_cessions_total", "reason"): Fixed([*CessionReason]),
    ("cede_dashboard_requests_total", "outcome"): Fixed([*Outcome]),
    ("cede_dashboard_requests_total", "path"): Fixed(
        {*ROUTES, OTHER}, f"routes of the page, such as `{server.DATA}me`; `{OTHER}` is one"
    ),
    ("cede_dashboard_too_many_total", "limit"): Fixed([*Limit]),
    ("cede_failed_passes_total", "error"): Fixed(
        ERRORS, "classes of errors for what the API server answers, and that of a fault"
    ),
    ("cede_kept_accelerator_seconds_total", "resource"): GrowsWith.TYPES,
    ("cede_lent_quota", "queue"): GrowsWith.TEAMS,
    ("cede_lent_quota", "resource"): ForEach(
        RESOURCES_OF_A_TEAM,
        "for each team the resources of its instance types: an allocation has at most "
        f"{TYPES_OF_A_TEAM} types",
    ),
    ("cede_lost_accelerator_seconds_total", "resource"): GrowsWith.TYPES,
    ("cede_pass_seconds", "part"): Fixed(("snapshot", "plan", "actions")),
    ("cede_pending_workloads", "queue"): GrowsWith.TEAMS,
    ("cede_runtime_calls_total", "method"): Fixed(("GET", "PUT", "POST")),
    ("cede_runtime_calls_total", "result"): Fixed(("answered", "refused", "silent")),
    ("cede_scheduler_actions_total", "action"): Fixed(ACTIONS, "kinds of actions"),
    ("cede_scheduler_actions_total", "result"): Fixed(
        ("performed", "queued", "outdated", "refused")
    ),
    ("cede_targets_total", "ceded"): Fixed(("true", "false")),
    ("cede_targets_total", "how"): Fixed({*get_args(How)}),
    ("cede_targets_total", "queue"): GrowsWith.TEAMS,
    ("cede_team_info", "queue"): GrowsWith.TEAMS,
    ("cede_team_info", "team_namespace"): ForEach(1, "for each team its namespace"),
    ("cede_waiting_jobs", "reason"): Fixed([*WaitReason], "reasons of `cede explain`"),
    ("cede_webhook_answers_total", "answer"): Fixed(("allowed", "refused", "malformed")),
    ("cede_webhook_answers_total", "path"): Fixed((MUTATE, VALIDATE)),
    ("cede_webhook_seconds", "path"): Fixed((MUTATE, VALIDATE)),
    ("elastic_runtime_seconds_total", "cause"): Fixed(CAUSES),
}
"""Why each label of each metric has few values. A new label needs a reason here."""


def registered() -> list[Any]:
    """Every metric of Cede that the controllers register, by name."""
    # each controller registers its metrics on import
    for component in COMPONENTS:
        import_module(f"{component}.__main__")
    # no public function lists what is registered, with its labels
    collectors = [item for item in set(REGISTRY._collector_to_names) if _name(item)]
    return sorted(collectors, key=_name)


def _name(collector: Any) -> str:
    """With the suffix of a counter; empty for a metric that is not ours."""
    name = str(getattr(collector, "_name", ""))
    if not name.startswith("cede_"):
        return ""
    return f"{name}_total" if collector._type == "counter" else name


def labels() -> set[tuple[str, str]]:
    """(metric, label) of all components and of a training job."""
    ours = {(_name(item), label) for item in registered() for label in item._labelnames}
    text = format_job(Status(), Tally()) + format_pod(0, 0, 0, slowest_answer_s=0, own_s=0)
    return ours | set(re.findall(r"^(elastic_runtime_\w+)\{(\w+)=", text, re.MULTILINE))


def metric_table() -> str:
    rows = [
        f"| `{_name(item)}` | {item._type} | {_quoted(item._labelnames)} | {item._documentation} |"
        for item in registered()
    ]
    return "\n".join(["| metric | kind | labels | meaning |", "|---|---|---|---|", *rows])


def label_table() -> str:
    rows = [
        f"| `{label}` of `{metric}` | {_described(BOUNDS[metric, label])} |"
        for metric, label in sorted(BOUNDS)
    ]
    return "\n".join(["| label | its values |", "|---|---|", *rows])


def _described(bound: Fixed | GrowsWith | ForEach) -> str:
    if isinstance(bound, GrowsWith):
        return bound
    if isinstance(bound, ForEach):
        return bound.why
    if not bound.what:
        return _quoted(sorted(bound.values))
    return f"{len(bound.values)} {bound.what}"


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
