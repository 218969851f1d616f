"""PURE. What `cede doctor` says of the namespaces of teams, with the cure."""

from collections.abc import Iterator, Sequence

from cede.api import names
from cede.api.allocation import is_reserved
from cede.api.kueue import MetadataOnly
from cede.api.policy import PolicySpec
from cede.report.installation_facts import Finding, Installation, State, Unread

OWNERS = "namespaces of teams"
POD_SECURITY = "pod security"


def namespace_findings(cluster: Installation) -> Iterator[Finding]:
    """Whether any belongs to the cluster, and each one that enforces no level of Pod Security."""
    if isinstance(cluster.team_namespaces, Unread):
        for subject in (OWNERS, POD_SECURITY):
            yield Finding(subject, State.UNKNOWN, "you may not list namespaces")
        return
    spec = PolicySpec() if isinstance(cluster.policy, Unread) else cluster.policy.spec
    yield _owners(cluster.team_namespaces, spec)
    yield from _pod_security(cluster.team_namespaces, spec)


def _owners(team_namespaces: Sequence[MetadataOnly], spec: PolicySpec) -> Finding:
    """Members may run jobs with every service account of their namespace."""
    labelled = [namespace.metadata.name for namespace in team_namespaces]
    reserved = [name for name in labelled if is_reserved(name)]
    trusted = set(spec.security.controllerNamespaces) - set(reserved)
    of_controllers = [name for name in labelled if name in trusted]
    if not reserved and not of_controllers:
        return Finding(
            OWNERS, State.OK, f"{len(labelled)}, none of them of the cluster or of controllers"
        )
    move = (
        "give the team another one, and `kubectl label namespace "
        f"{' '.join(reserved + of_controllers)} {names.TEAM}- {names.ALLOCATION}-`"
    )
    if of_controllers:
        move += (
            f"; or remove {', '.join(of_controllers)} from spec.security.controllerNamespaces of "
            "the ClusterPolicy if no controller runs there"
        )
    return Finding(
        OWNERS,
        State.WRONG,
        f"{', '.join(reserved + of_controllers)}: members could use service accounts with rights "
        f"over the cluster, or that no quota binds: {move}",
    )


def _pod_security(team_namespaces: Sequence[MetadataOnly], spec: PolicySpec) -> Iterator[Finding]:
    """Those that Cede creates have the level of the policy; an adopted one keeps what it has."""
    unset = [
        namespace.metadata.name
        for namespace in team_namespaces
        if names.POD_SECURITY_ENFORCE not in namespace.metadata.labels
    ]
    if not unset:
        message = f"{len(team_namespaces)} namespaces of teams, all of them enforce a level"
        yield Finding(POD_SECURITY, State.OK, message)
    for name in unset:
        command = (
            f"kubectl label namespace {name} {names.POD_SECURITY_ENFORCE}="
            f"{spec.security.podSecurity}"
        )
        yield Finding(
            POD_SECURITY,
            State.WRONG,
            f"namespace {name} enforces no level, so a member's privileged pod would own its node, "
            f"unless the cluster has a default: `{command}`; --dry-run=server names the pods that "
            "it would refuse, and where they are needed the level is privileged",
        )
