"""`cede doctor`: what is wrong with an installation, with the cure."""

import base64
import ssl
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, TypeVar

from cede.api import names, objects
from cede.api.allocation import ComputeAllocation
from cede.api.cession import Cession
from cede.api.crd_definition import definition, missing_fields
from cede.api.kueue import Lease, MetadataOnly
from cede.api.objects import Json, Key, Kind, Meta
from cede.api.policy import ClusterPolicy
from cede.causes.snapshot import Deployment
from cede.commands.command import DONE, FAILED, Options
from cede.commands.connection import connected
from cede.commands.output import show
from cede.kube.errors import Forbidden, NotFound, Unreadable
from cede.kube.failures import failure_sentence
from cede.kube.server_version import read_kubernetes
from cede.kueue_settings import config
from cede.reading.reader import read_leases
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
from cede.report.text import table

if TYPE_CHECKING:
    from cede.kube.client import HttpClient

T = TypeVar("T")
CUSTOM_RESOURCES = Kind(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
)
NEEDED_KINDS = (
    *(objects.POLICIES, objects.ALLOCATIONS, objects.CESSIONS),
    *(objects.WORKLOADS, objects.CLUSTER_QUEUES, objects.LOCAL_QUEUES),
)


@dataclass(frozen=True, slots=True)
class Reference:
    """A Service, or whom a role is bound to."""

    name: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    metadata: Meta = field(default_factory=Meta)
    subjects: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientConfig:
    service: Reference = field(default_factory=Reference)
    caBundle: str = ""


@dataclass(frozen=True, slots=True)
class Webhook:
    clientConfig: ClientConfig = field(default_factory=ClientConfig)


@dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    metadata: Meta = field(default_factory=Meta)
    webhooks: tuple[Webhook, ...] = ()


async def doctor(chosen: Options) -> int:
    """Check an installation and name what is wrong, with the cure; also before there is one.

    The exit code is 1 if anything is wrong. What you may not read is unknown.
    """
    async with connected(chosen) as client:
        cluster = await _read(client)
    results = findings(cluster, time.time())
    show(chosen, [asdict(finding) for finding in results], _lines(results))
    is_wrong = any(finding.state is State.WRONG for finding in results)
    return FAILED if is_wrong else DONE


def _lines(results: list[Finding]) -> list[str]:
    rows = [(finding.state.value, finding.subject, finding.message) for finding in results]
    return list(table([("STATE", "CHECK", "RESULT"), *rows]))


# --- reading --------------------------------------------------------------------------------------
async def _read(client: "HttpClient") -> Installation:
    kubernetes = await _or_unread(read_kubernetes(client))
    known = None if isinstance(kubernetes, Unread) else kubernetes
    deployment = await _raw(client, objects.DEPLOYMENTS, config.DEPLOYMENT)
    kueue = deployment if isinstance(deployment, Unread) else config.image_of(deployment)
    settings = await _kueue_settings(client, deployment)
    namespace = await _raw(client, objects.NAMESPACES, ("", names.GUARD_NAMESPACE))
    guards = {} if isinstance(namespace, Unread) else namespace
    kinds = {kind.kind: await _discovered(client, kind) for kind in NEEDED_KINDS}
    missing = tuple(kind for kind, result in kinds.items() if result is Unread.MISSING)
    unread = tuple(kind for kind, result in kinds.items() if result is Unread.FORBIDDEN)
    if set(CRDS) <= set(missing):
        return Installation(known, kueue, missing, unread, {}, settings, guards)
    errors = list[Unreadable]()
    deployments = {name: await _deployment(client, name) for name in (*COMPONENTS, *ADDITIONS)}
    leases = await read_leases(client)
    if isinstance(deployments[names.LEDGER], Deployment):
        leases |= await _ledger_lease(client)
    # only whether they can be read
    await _or_unread(client.list(objects.ALLOCATIONS, ComputeAllocation, unreadable=errors))
    return Installation(
        known,
        kueue,
        missing,
        unread,
        await _dropped_fields(client),
        settings,
        guards,
        policy=await _policy(client, errors),
        deployments=deployments,
        leases=leases,
        team_namespaces=await _team_namespaces(client),
        placed=await _or_unread(_placed(client)),
        webhook_ca_end=await _or_unread(_webhook_ca_end(client)),
        guards=await _labelled(client, objects.CLUSTER_QUEUES, names.GUARD),
        stopped=await _labelled(client, objects.WORKLOADS, names.STOPPED_FOR),
        cessions=await _cessions(client, errors),
        unreadable=[failure_sentence(error) for error in errors],
    )


async def _or_unread(reading: Awaitable[T]) -> T | Unread:
    try:
        return await reading
    except NotFound:
        return Unread.MISSING
    except Forbidden:
        return Unread.FORBIDDEN


async def _discovered(client: "HttpClient", kind: Kind) -> Unread | None:
    """None if the API server has this kind in this version."""
    answer = await _or_unread(client.describe(f"/apis/{kind.api_version}"))
    if isinstance(answer, Unread):
        return answer
    served = {resource["kind"] for resource in answer["resources"]}
    return None if kind.kind in served else Unread.MISSING


async def _dropped_fields(client: "HttpClient") -> dict[str, list[str]]:
    """None of a kind whose definition may not be read."""
    dropped = {}
    for model in (ClusterPolicy, ComputeAllocation, Cession):
        wanted = definition(model)
        served = await _raw(client, CUSTOM_RESOURCES, ("", wanted["metadata"]["name"]))
        fields = [] if isinstance(served, Unread) else missing_fields(wanted, served)
        if fields:
            dropped[model.CRD.kind.kind] = fields
    return dropped


async def _policy(client: "HttpClient", unreadable: list[Unreadable]) -> ClusterPolicy | Unread:
    key = ("", names.POLICY_NAME)
    try:
        return await _or_unread(client.get(objects.POLICIES, ClusterPolicy, key))
    except Unreadable as error:
        unreadable.append(error)
        return Unread.UNREADABLE


async def _raw(client: "HttpClient", kind: Kind, key: Key) -> Json | Unread:
    return await _or_unread(client.get(kind, dict, key))


async def _kueue_settings(
    client: "HttpClient", deployment: Json | Unread
) -> config.KueueInstallation:
    config_map = await _raw(client, objects.CONFIG_MAPS, config.CONFIG_MAP)
    hidden = [
        f"{kind} {key[1]} in namespace {key[0]}"
        for kind, key, read in (
            ("ConfigMap", config.CONFIG_MAP, config_map),
            ("Deployment", config.DEPLOYMENT, deployment),
        )
        if read is Unread.FORBIDDEN
    ]
    return config.KueueInstallation(
        None if isinstance(config_map, Unread) else config_map,
        None if isinstance(deployment, Unread) else deployment,
        f"you may not read {' and '.join(hidden)}" if hidden else "",
    )


async def _ledger_lease(client: "HttpClient") -> dict[str, Lease | None]:
    """Empty if it may not be read."""
    lease = await _or_unread(
        client.get(objects.LEASES, Lease, (names.SYSTEM_NAMESPACE, names.LEDGER))
    )
    if lease is Unread.FORBIDDEN:
        return {}
    return {names.LEDGER: None if isinstance(lease, Unread) else lease}


async def _deployment(client: "HttpClient", name: str) -> Deployment | Unread:
    key = (names.SYSTEM_NAMESPACE, name)
    return await _or_unread(client.get(objects.DEPLOYMENTS, Deployment, key))


async def _team_namespaces(client: "HttpClient") -> list[MetadataOnly] | Unread:
    answer = await _or_unread(client.list(objects.NAMESPACES, MetadataOnly, labels=names.TEAM))
    return answer if isinstance(answer, Unread) else answer[0]


async def _placed(client: "HttpClient") -> list[Placed]:
    """The components in all namespaces, the accounts that their rights are bound to, and the
    Services that reviews are sent to."""
    deployments, _ = await client.list(objects.DEPLOYMENTS, MetadataOnly, labels=names.PART_OF_CEDE)
    placed = [
        Placed(f"Deployment {deployment.metadata.name}", deployment.metadata.namespace)
        for deployment in deployments
        if deployment.metadata.name in (*COMPONENTS, *ADDITIONS)
    ]
    bindings, _ = await client.list(
        objects.CLUSTER_ROLE_BINDINGS, Binding, labels=names.PART_OF_CEDE
    )
    placed += [
        Placed(
            f"account {subject.name} of ClusterRoleBinding {binding.metadata.name}",
            subject.namespace,
        )
        for binding in bindings
        for subject in binding.subjects
        if subject.namespace
    ]
    for kind in (objects.MUTATING_WEBHOOKS, objects.VALIDATING_WEBHOOKS):
        configurations, _ = await client.list(kind, WebhookConfiguration, labels=names.PART_OF_CEDE)
        services = {
            webhook.clientConfig.service.namespace
            for configuration in configurations
            for webhook in configuration.webhooks
        }
        placed += [Placed(f"Service of the {kind.kind}", place) for place in services if place]
    return placed


async def _labelled(client: "HttpClient", kind: Kind, label: str) -> list[MetadataOnly]:
    """None of them if they may not be read."""
    answer = await _or_unread(client.list(kind, MetadataOnly, labels=label))
    return [] if isinstance(answer, Unread) else answer[0]


async def _cessions(client: "HttpClient", unreadable: list[Unreadable]) -> list[Cession]:
    answer = await _or_unread(client.list(objects.CESSIONS, Cession, unreadable=unreadable))
    return [] if isinstance(answer, Unread) else answer[0]


async def _webhook_ca_end(client: "HttpClient") -> float:
    """When the last of the webhook's certificate authorities ends; 0.0 if it has published none."""
    key = ("", names.WEBHOOK)
    configuration = await client.get(objects.MUTATING_WEBHOOKS, WebhookConfiguration, key)
    bundles = [webhook.clientConfig.caBundle for webhook in configuration.webhooks]
    return min(map(ca_end, bundles), default=0.0)


def ca_end(bundle: str) -> float:
    """When the last certificate of a base64 bundle ends (Unix seconds); 0.0 for none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=base64.b64decode(bundle).decode())
    except (ValueError, ssl.SSLError):
        return 0.0
    ends = [str(certificate["notAfter"]) for certificate in context.get_ca_certs()]
    return max(map(ssl.cert_time_to_seconds, ends), default=0.0)
