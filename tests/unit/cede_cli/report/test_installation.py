"""The findings of `cede doctor`."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from cede.api import names
from cede.api.cession import Cession
from cede.api.kueue import Lease, MetadataOnly
from cede.api.objects import Meta, rfc3339
from cede.api.support import Kubernetes
from cede.causes.snapshot import Deployment, DeploymentSpec, DeploymentStatus
from cede.kueue_settings.config import CONFIG_KEY, KueueInstallation
from cede.report.installation import findings
from cede.report.installation_facts import (
    ADDITIONS,
    COMPONENTS,
    CRDS,
    Finding,
    Installation,
    Placed,
    State,
    Unread,
)
from tests.builders.reports import LEASE, LEASES, policy, stopping_cession
from tests.paths import TREE

NOW = 10_000.0
DAY_S = 86400.0
CONDITIONS = [
    {"type": type_, "status": "True", "message": "fine"}
    for type_ in ("Ready", "KueueConfigured", "SchedulerLeads")
]
SETTINGS = KueueInstallation(
    yaml.safe_load((TREE / "deploy" / "local" / "kueue" / "settings.yaml").read_text()),
    {"spec": {"template": {"spec": {"containers": [{"image": "kueue:v0.19.2"}]}}}},
)
CONFIG_MAP_OF_NOTHING = {"data": {CONFIG_KEY: "kind: Configuration\n"}}
HEALTHY = Installation(
    kubernetes=Kubernetes("v1.36.3"),
    kueue="registry.k8s.io/kueue/kueue:v0.19.2",
    policy=policy(conditions=CONDITIONS),
    deployments={name: Deployment(DeploymentSpec(2), DeploymentStatus(2)) for name in COMPONENTS},
    leases=LEASES,
    webhook_ca_end=NOW + 30 * DAY_S,
)


def finding(subject: str, **changed: Any) -> Finding:
    results = {item.subject: item for item in findings(replace(HEALTHY, **changed), NOW)}
    return results[subject]


def test_nothing_is_wrong_with_a_healthy_installation() -> None:
    results = findings(HEALTHY, NOW)
    assert {item.state for item in results} == {State.OK}
    assert [item.subject for item in results] == [
        "Kubernetes",
        "Kueue",
        "CRDs",
        *COMPONENTS,
        *(f"lease {name}" for name in LEASES),
        "webhook certificate",
        "ClusterPolicy Ready",
        "ClusterPolicy KueueConfigured",
        "ClusterPolicy SchedulerLeads",
        "place of Cede",
        "namespaces of teams",
        "pod security",
        "guards",
        "stopped jobs",
    ]


def test_before_the_installation_only_what_it_needs_is_checked() -> None:
    before = Installation(Kubernetes("v1.36.3"), "kueue:v0.19.2", CRDS, kueue_settings=SETTINGS)
    results = findings(before, NOW)
    assert [(item.subject, item.state) for item in results] == [
        ("Kubernetes", State.OK),
        ("Kueue", State.OK),
        ("Kueue's settings", State.OK),
        ("Cede", State.UNKNOWN),
    ]
    assert "kubectl apply --server-side" in results[-1].message


@pytest.mark.parametrize(
    ("settings", "state", "message"),
    [
        pytest.param(SETTINGS, State.OK, "it queues", id="as needed"),
        pytest.param(
            replace(SETTINGS, config_map=CONFIG_MAP_OF_NOTHING),
            State.WRONG,
            "for a ClusterPolicy with defaults: idleCompute is FairShare and Kueue's fairSharing "
            "is off",
            id="not as needed",
        ),
        pytest.param(
            replace(SETTINGS, config_map=None), State.UNKNOWN, "there is no ConfigMap", id="absent"
        ),
        pytest.param(
            replace(SETTINGS, read_error="you may not read it"),
            State.UNKNOWN,
            "cannot be read: you may not read it",
            id="no right",
        ),
    ],
)
def test_kueues_settings_are_checked_before_there_is_a_policy(
    settings: KueueInstallation, state: State, message: str
) -> None:
    result = finding("Kueue's settings", policy=Unread.MISSING, kueue_settings=settings)
    assert result.state is state
    assert message in result.message


def test_crds_that_are_older_than_the_command_are_named_with_what_they_drop() -> None:
    dropped = {"Cession": ["status.targets.completed", "status.targets.unsaved"]}
    result = finding("CRDs", dropped_fields=dropped)
    assert (result.state, result.message) == (
        State.WRONG,
        "they are older than this command: of Cession the API server drops "
        "status.targets.completed, status.targets.unsaved: `kubectl apply --server-side -k "
        "deploy/overlays/production`",
    )


def test_a_kueue_that_is_too_old_is_wrong_once() -> None:
    results = findings(Installation(Kubernetes("v1.36.3"), "kueue:v0.19.1", CRDS), NOW)
    assert [item.subject for item in results if item.state is State.WRONG] == ["Kueue"]
    assert "Kueue's settings" not in {item.subject for item in results}


@pytest.mark.parametrize("name", ADDITIONS)
def test_the_ledger_and_the_page_are_checked_where_they_are(name: str) -> None:
    absent = findings(replace(HEALTHY, deployments={name: Unread.MISSING}), NOW)
    assert name not in {item.subject for item in absent}
    down = finding(name, deployments={name: Deployment(DeploymentSpec(1), DeploymentStatus(0))})
    assert (down.state, down.message) == (
        State.WRONG,
        "0 of 1 replicas are available: see `kubectl describe pods -n cede-system`",
    )
    up = finding(name, deployments={name: Deployment(DeploymentSpec(1), DeploymentStatus(1))})
    assert up.state is State.OK


def deployment(replicas: int, available: int) -> dict[str, Deployment]:
    return {names.WEBHOOK: Deployment(DeploymentSpec(replicas), DeploymentStatus(available))}


def expired_lease() -> Lease:
    return replace(LEASE, spec=replace(LEASE.spec, renewTime=rfc3339(NOW - 600, micro=True)))


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("Kubernetes", {"kubernetes": Kubernetes("v1.29.1")}, "upgrade it to 1.30 or newer"),
    ("Kueue", {"kueue": "kueue:v0.19.1"}, "0.19.1 is too old: upgrade it to 0.19.2 or newer"),
    ("Kueue", {"missing_kinds": ("Workload",)}, "no Workload in version v1beta2: install Kueue"),
    ("CRDs", {"missing_kinds": ("Cession",)}, "the API server has no Cession: `kubectl apply"),
    (names.WEBHOOK, {"deployments": deployment(2, 1)}, "1 of 2 replicas are available: see"),
    (names.WEBHOOK, {"deployments": deployment(0, 0)}, "is scaled to 0: scale it up"),
    (names.WEBHOOK, {"deployments": {names.WEBHOOK: Unread.MISSING}}, "there is no Deployment"),
    ("lease a", {"leases": {"a": None}}, "no a has ever led"),
    ("lease a", {"leases": {"a": expired_lease()}}, "no a has led for 10 min"),
    ("webhook certificate", {"webhook_ca_end": 0.0}, "no quota_controller has published its CA"),
    ("webhook certificate", {"webhook_ca_end": NOW - 1}, "its CA has expired"),
    ("webhook certificate", {"webhook_ca_end": NOW + DAY_S}, "its CA ends in 24 h"),
    ("webhook certificate", {"webhook_ca_end": Unread.MISSING}, "there is no Mutating"),
    ("ClusterPolicy", {"policy": Unread.MISSING}, "apply one named default"),
    ("objects", {"unreadable": ["use the version that wrote it"]}, "use the version"),
]


@pytest.mark.parametrize(("subject", "changed", "message"), WRONG)
def test_what_is_wrong_has_its_cure(subject: str, changed: dict[str, Any], message: str) -> None:
    result = finding(subject, **changed)
    assert result.state is State.WRONG
    assert message in result.message


@pytest.mark.parametrize(
    ("subject", "changed"),
    [
        ("Kubernetes", {"kubernetes": None}),
        ("Kubernetes", {"kubernetes": Kubernetes("v1.99.0")}),
        ("Kueue", {"kueue": "kueue:main"}),
        ("Kueue", {"kueue": "kueue:v0.20.0"}),
        ("Kueue", {"kueue": Unread.FORBIDDEN}),
        (names.WEBHOOK, {"deployments": {names.WEBHOOK: Unread.FORBIDDEN}}),
        ("webhook certificate", {"webhook_ca_end": Unread.FORBIDDEN}),
        ("Kueue", {"unread_kinds": ("Workload",)}),
        ("CRDs", {"unread_kinds": CRDS}),
        ("ClusterPolicy", {"policy": Unread.FORBIDDEN}),
        ("place of Cede", {"placed": Unread.FORBIDDEN}),
        ("ClusterPolicy Ready", {"policy": policy()}),
    ],
)
def test_what_cannot_be_read_or_was_not_tried_is_unknown(
    subject: str, changed: dict[str, Any]
) -> None:
    assert finding(subject, **changed).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("status", "state"),
    [("True", State.OK), ("False", State.WRONG), ("Unknown", State.UNKNOWN)],
)
def test_conditions_of_the_policy_have_their_own_cure(status: str, state: State) -> None:
    entry = {"type": "KueueConfigured", "status": status, "message": "set fairSharing"}
    result = finding("ClusterPolicy KueueConfigured", policy=policy(conditions=[entry]))
    assert (result.state, result.message) == (state, "set fairSharing")


# --- a second installation ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("placed", "message"),
    [
        ([], "nothing of it is here"),
        ([Placed("Deployment cede-webhook", "cede-system")], "all of it in namespace cede-system"),
    ],
)
def test_one_installation_or_none_is_right(placed: list[Placed], message: str) -> None:
    result = finding("place of Cede", placed=placed)
    assert (result.state, result.message) == (State.OK, message)


def test_what_is_elsewhere_of_cede_is_named_with_the_cure() -> None:
    placed = [
        Placed("Deployment cede-scheduler", names.SYSTEM_NAMESPACE),
        Placed("Deployment cede-webhook", "other"),
        Placed("account cede-scheduler of ClusterRoleBinding cede-scheduler", "other"),
    ]
    result = finding("place of Cede", placed=placed)
    assert (result.state, result.message) == (
        State.WRONG,
        "Cede runs in namespace cede-system only, once in a cluster, and another installation "
        "takes its rights: Deployment cede-webhook in other, account cede-scheduler of "
        "ClusterRoleBinding cede-scheduler in other: delete the Deployments there, and `kubectl "
        "apply --server-side -k deploy/overlays/production --force-conflicts`",
    )


# --- what Cessions left behind --------------------------------------------------------------------
def labelled(label: str, created: float = NOW - 1000) -> MetadataOnly:
    return MetadataOnly(
        Meta(name="left", creationTimestamp=rfc3339(created), labels={label: "c-1"})
    )


def cession(phase: str, completed: float = 0.0) -> Cession:
    body = stopping_cession(rfc3339(completed) if completed else "")
    body["status"]["phase"] = phase
    return Cession.model_validate(body)


@pytest.mark.parametrize(
    ("cessions", "state"),
    [
        pytest.param([], State.WRONG, id="the Cession does not exist"),
        pytest.param([cession("Completed", NOW - 900)], State.WRONG, id="it ended long ago"),
        pytest.param([cession("Completed", NOW - 10)], State.OK, id="it has just ended"),
        pytest.param([cession("Asked")], State.OK, id="it goes on"),
    ],
)
def test_what_is_left_of_a_cession_that_ended(cessions: list[Cession], state: State) -> None:
    guards = finding("guards", guards=[labelled(names.GUARD)], cessions=cessions)
    stopped = finding("stopped jobs", stopped=[labelled(names.STOPPED_FOR)], cessions=cessions)
    assert (guards.state, stopped.state) == (state, state)


def test_a_surplus_that_waits_for_its_base_is_not_left_behind() -> None:
    waiting = MetadataOnly(Meta(name="more", labels={names.STOPPED_FOR: names.NO_BASE}))
    assert finding("stopped jobs", stopped=[waiting]).state is State.OK


def test_what_may_be_of_a_cession_that_cannot_be_read_is_unknown() -> None:
    changed: dict[str, Any] = {
        "guards": [labelled(names.GUARD)],
        "stopped": [labelled(names.STOPPED_FOR)],
        "unreadable": ["Cession c-1"],
    }
    assert finding("guards", **changed).state is State.UNKNOWN
    assert finding("stopped jobs", **changed).state is State.UNKNOWN


def test_what_has_just_been_made_is_not_left_behind() -> None:
    assert finding("guards", guards=[labelled(names.GUARD, NOW - 5)]).state is State.OK
