"""PURE. The findings of `cede doctor`: what is wrong with an installation, with the cure."""

import re
from collections.abc import Iterable, Iterator, Sequence

from cede.api import durations, names
from cede.api.kueue import Lease, MetadataOnly
from cede.api.objects import condition, unix
from cede.api.policy import ClusterPolicy, PolicySpec
from cede.api.support import OLDEST_KUEUE, TESTED_KUEUE, Kubernetes, judge, text_of
from cede.causes.snapshot import COMPONENT_BY_LEASE, Deployment, is_current
from cede.kueue_settings.checks import verdict
from cede.kueue_settings.managed_namespaces import guard_labels
from cede.report.installation_facts import (
    ADDITIONS,
    CRDS,
    INSTALL,
    Finding,
    Installation,
    Placed,
    State,
    Unread,
)
from cede.report.team_namespaces import namespace_findings

STALE_AFTER_S = 300.0
"""A guard ends after 120 s, and a Cession's last writes follow within seconds."""
CERTIFICATE_SOON_S = 3 * 86400.0


def findings(cluster: Installation, now: float) -> list[Finding]:
    """All checks, in the order in which an administrator would cure them."""
    kueue = list(_kueue(cluster))
    result = [_kubernetes(cluster.kubernetes), *kueue]
    is_usable = all(finding.state is not State.WRONG for finding in kueue)
    # with a policy, its condition KueueConfigured says it
    if is_usable and cluster.policy is Unread.MISSING:
        result.append(_kueue_settings(cluster))
    missing = [kind for kind in CRDS if kind in cluster.missing_kinds]
    if len(missing) == len(CRDS):
        message = f"it is not installed: `{INSTALL}`"
        return [*result, Finding("Cede", State.UNKNOWN, message)]
    result.append(_crds(missing, cluster))
    result += [Finding("objects", State.WRONG, sentence) for sentence in cluster.unreadable]
    result += [
        _deployment(name, deployment)
        for name, deployment in cluster.deployments.items()
        if name not in ADDITIONS or deployment is not Unread.MISSING
    ]
    result += [_lease(name, lease, now) for name, lease in cluster.leases.items()]
    result += [_certificate(cluster.webhook_ca_end, now), *_policy(cluster.policy)]
    result.append(_place(cluster.placed))
    result += namespace_findings(cluster)
    return [*result, _guards(cluster, now), _stopped(cluster, now)]


# --- before the installation ----------------------------------------------------------------------
def _kubernetes(kubernetes: Kubernetes | None) -> Finding:
    support = judge(kubernetes)
    states = {True: State.OK, False: State.WRONG, None: State.UNKNOWN}
    return Finding("Kubernetes", states[support.status], support.message)


def _kueue(cluster: Installation) -> Iterator[Finding]:
    needed = text_of(OLDEST_KUEUE)
    absent = [kind for kind in cluster.missing_kinds if kind not in CRDS]
    if absent:
        yield Finding(
            "Kueue",
            State.WRONG,
            f"the API server has no {' and no '.join(absent)} in version v1beta2: install Kueue "
            f"{needed} or newer",
        )
        return
    unread = [kind for kind in cluster.unread_kinds if kind not in CRDS]
    if unread:
        yield _unread_kinds("Kueue", unread)
        return
    image = cluster.kueue
    match = re.search(r":v?(\d+)\.(\d+)\.(\d+)", image)
    if isinstance(image, Unread) or match is None:
        message = "its version cannot be read: Deployment kueue-controller-manager in kueue-system"
        yield Finding("Kueue", State.UNKNOWN, message)
        return
    version = tuple(map(int, match.groups()))
    text = text_of(version)
    if version < OLDEST_KUEUE:
        yield Finding("Kueue", State.WRONG, f"{text} is too old: upgrade it to {needed} or newer")
    elif version[:2] > TESTED_KUEUE:
        message = f"{text}; Cede was tested with {text_of(TESTED_KUEUE)}"
        yield Finding("Kueue", State.UNKNOWN, message)
    else:
        yield Finding("Kueue", State.OK, text)


def _kueue_settings(cluster: Installation) -> Finding:
    """As a policy would need them that has only defaults."""
    labels = guard_labels(cluster.guard_namespace)
    result = verdict(PolicySpec(), cluster.kueue_settings, labels)
    states = {True: State.OK, False: State.WRONG, None: State.UNKNOWN}
    message = result.message
    if result.status is False:
        message = f"for a ClusterPolicy with defaults: {message}"
    return Finding("Kueue's settings", states[result.status], message)


# --- the installation -----------------------------------------------------------------------------
def _unread_kinds(subject: str, unread: Sequence[str]) -> Finding:
    message = f"you may not read whether the API server has {' and '.join(unread)}"
    return Finding(subject, State.UNKNOWN, message)


def _crds(missing: Sequence[str], cluster: Installation) -> Finding:
    if missing:
        message = f"the API server has no {' and no '.join(missing)}: `{INSTALL}`"
        return Finding("CRDs", State.WRONG, message)
    if cluster.dropped_fields:
        dropped = "; ".join(
            f"of {kind} the API server drops {', '.join(fields)}"
            for kind, fields in cluster.dropped_fields.items()
        )
        message = f"they are older than this command: {dropped}: `{INSTALL}`"
        return Finding("CRDs", State.WRONG, message)
    unread = [kind for kind in CRDS if kind in cluster.unread_kinds]
    if unread:
        return _unread_kinds("CRDs", unread)
    return Finding("CRDs", State.OK, ", ".join(CRDS))


def _deployment(name: str, deployment: Deployment | Unread) -> Finding:
    place = f"Deployment {name} in namespace {names.SYSTEM_NAMESPACE}"
    if deployment is Unread.FORBIDDEN:
        return Finding(name, State.UNKNOWN, f"you may not read {place}")
    if isinstance(deployment, Unread):
        return Finding(name, State.WRONG, f"there is no {place}: `{INSTALL}`")
    available = deployment.status.availableReplicas
    replicas = deployment.spec.replicas
    pods = f"{available} of {replicas} replicas are available"
    if replicas == 0:
        return Finding(name, State.WRONG, f"{place} is scaled to 0: scale it up")
    if available < replicas:
        cure = f"kubectl describe pods -n {names.SYSTEM_NAMESPACE}"
        return Finding(name, State.WRONG, f"{pods}: see `{cure}`")
    return Finding(name, State.OK, pods)


def _lease(name: str, lease: Lease | None, now: float) -> Finding:
    component = COMPONENT_BY_LEASE.get(name, name)
    subject = f"lease {name}"
    cure = f"see `kubectl logs deployment/{component} -n {names.SYSTEM_NAMESPACE}`"
    if lease is None:
        return Finding(subject, State.WRONG, f"no {component} has ever led: {cure}")
    if not is_current(lease, now):
        age = durations.describe(now - unix(lease.spec.renewTime))
        return Finding(subject, State.WRONG, f"no {component} has led for {age}: {cure}")
    return Finding(subject, State.OK, f"{lease.spec.holderIdentity} leads")


def _certificate(end: float | Unread, now: float) -> Finding:
    subject = "webhook certificate"
    cure = f"see `kubectl logs deployment/{names.QUOTA_CONTROLLER} -n {names.SYSTEM_NAMESPACE}`"
    if end is Unread.FORBIDDEN:
        message = "you may not read MutatingWebhookConfiguration cede-webhook"
        return Finding(subject, State.UNKNOWN, message)
    if isinstance(end, Unread):
        message = f"there is no MutatingWebhookConfiguration cede-webhook: `{INSTALL}`"
        return Finding(subject, State.WRONG, message)
    if end == 0.0:
        return Finding(subject, State.WRONG, f"no quota_controller has published its CA: {cure}")
    left = durations.describe(end - now)
    if end < now:
        return Finding(subject, State.WRONG, f"its CA has expired, and nobody renewed it: {cure}")
    if end < now + CERTIFICATE_SOON_S:
        return Finding(
            subject, State.WRONG, f"its CA ends in {left}, and should be renewed: {cure}"
        )
    return Finding(subject, State.OK, f"its CA is valid for {left}")


def _policy(policy: ClusterPolicy | Unread) -> Iterator[Finding]:
    """Its conditions; KueueConfigured is about Kueue's settings."""
    if policy is Unread.FORBIDDEN:
        yield Finding("ClusterPolicy", State.UNKNOWN, "you may not read it")
        return
    if policy is Unread.UNREADABLE:
        # the objects that cannot be read have their own findings
        return
    if isinstance(policy, Unread):
        yield Finding(
            "ClusterPolicy",
            State.WRONG,
            f"there is none: apply one named {names.POLICY_NAME} that lists the instance types",
        )
        return
    for type_ in ("Ready", "KueueConfigured", "SchedulerLeads"):
        entry = condition(policy.status.conditions, type_)
        subject = f"ClusterPolicy {type_}"
        if entry is None:
            message = f"{names.QUOTA_CONTROLLER} has not reported it yet"
            yield Finding(subject, State.UNKNOWN, message)
            continue
        state_by_status = {"True": State.OK, "False": State.WRONG}
        yield Finding(
            subject, state_by_status.get(entry["status"], State.UNKNOWN), entry["message"]
        )


def _place(placed: Sequence[Placed] | Unread) -> Finding:
    """All names are fixed: what a second installation has, the first one has no longer."""
    subject = "place of Cede"
    if isinstance(placed, Unread):
        return Finding(subject, State.UNKNOWN, "you may not read all Deployments and bindings")
    elsewhere = [item for item in placed if item.namespace != names.SYSTEM_NAMESPACE]
    if not elsewhere:
        place = f"all of it in namespace {names.SYSTEM_NAMESPACE}"
        return Finding(subject, State.OK, place if placed else "nothing of it is here")
    listed = ", ".join(f"{item.subject} in {item.namespace}" for item in elsewhere)
    return Finding(
        subject,
        State.WRONG,
        f"Cede runs in namespace {names.SYSTEM_NAMESPACE} only, once in a cluster, and another "
        f"installation takes its rights: {listed}: delete the Deployments there, and `{INSTALL} "
        "--force-conflicts`",
    )


# --- what Cessions left behind --------------------------------------------------------------------
def _stale(
    objects: Iterable[MetadataOnly], label: str, cluster: Installation, now: float
) -> list[str]:
    """The names of those whose Cession has ended a while ago, or does not exist."""
    latest = now - STALE_AFTER_S
    waiting = {names.NO_BASE} | {
        cession.metadata.name
        for cession in cluster.cessions
        if not cession.ended or unix(cession.status.completionTime) > latest
    }
    return [
        item.metadata.name
        for item in objects
        if item.metadata.labels[label] not in waiting and item.metadata.created < latest
    ]


def _undecided(subject: str, stale: list[str]) -> Finding:
    message = f"an object that cannot be read may be the Cession of {', '.join(stale)}"
    return Finding(subject, State.UNKNOWN, message)


def _guards(cluster: Installation, now: float) -> Finding:
    stale = _stale(cluster.guards, names.GUARD, cluster, now)
    if not stale:
        return Finding("guards", State.OK, f"{len(cluster.guards)}, none of them left behind")
    if cluster.unreadable:
        return _undecided("guards", stale)
    return Finding(
        "guards",
        State.WRONG,
        f"{', '.join(stale)} keep capacity for a Cession that has ended, and a controller that "
        f"runs deletes them: check {names.SCHEDULER} and {names.QUOTA_CONTROLLER}, or `kubectl "
        f"delete clusterqueue {' '.join(stale)}`",
    )


def _stopped(cluster: Installation, now: float) -> Finding:
    stale = _stale(cluster.stopped, names.STOPPED_FOR, cluster, now)
    if not stale:
        return Finding("stopped jobs", State.OK, "none waits for a Cession that has ended")
    if cluster.unreadable:
        return _undecided("stopped jobs", stale)
    return Finding(
        "stopped jobs",
        State.WRONG,
        f"Workloads {', '.join(stale)} wait for a Cession that has ended, and a controller that "
        f"runs lets them go on: check {names.SCHEDULER} and {names.QUOTA_CONTROLLER}, or `cede "
        f"release`",
    )
