"""Opens a connection to the API server: finds it, trusts it, and renews the credentials."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, incluster_config
from kubernetes.aio.config.incluster_config import load_incluster_config
from kubernetes.aio.config.kube_config import list_kube_config_contexts, load_kube_config

from cede.api import names
from cede.api.objects import Json
from cede.kube.client import REQUEST_TIMEOUT, HttpClient

# of a connection; reading pauses above the double
READ_BUFFER_BYTES = 1 << 21
DEFAULT_NAMESPACE = "default"


@asynccontextmanager
async def connect(
    *, manager: str, kubeconfig: str | None = None, context: str | None = None
) -> AsyncIterator[HttpClient]:
    """A client for as long as the context lasts; `manager` is the field manager of its writes.

    Raises ConfigException of the kubernetes package when no configuration names an API server.
    """
    configuration = Configuration()
    await load_configuration(configuration, kubeconfig, context)
    tls = trust(configuration)
    load_certificates(tls, configuration)

    async def renew() -> None:
        await load_configuration(configuration, kubeconfig, context)
        load_certificates(tls, configuration)

    async with open_session(configuration, tls) as session:
        yield HttpClient(session, configuration, manager, renew)


def open_session(
    configuration: Configuration,
    tls: ssl.SSLContext,
    cookie_jar: aiohttp.abc.AbstractCookieJar | None = None,
) -> aiohttp.ClientSession:
    """Connections to the API server; to be closed by the caller."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=100, ssl=tls, socket_factory=_socket_with_keepalive),
        cookie_jar=cookie_jar,
        read_bufsize=READ_BUFFER_BYTES,
        timeout=REQUEST_TIMEOUT,
        proxy=configuration.proxy,
    )


async def load_configuration(
    target: Configuration, kubeconfig: str | None = None, context: str | None = None
) -> None:
    """Fills `target` with the address of the API server, its CA and our credentials.

    Uses the given kubeconfig or context; else the service account of this pod; else the
    kubeconfig of the user.
    """
    if kubeconfig is None and context is None:
        try:
            load_incluster_config(client_configuration=target)
            return
        except ConfigException:
            pass
    try:
        await load_kube_config(config_file=kubeconfig, context=context, client_configuration=target)
    except (TypeError, AttributeError) as error:
        # what the kubernetes package raises for a file that is empty, or no kubeconfig
        raise ConfigException("the file is no kubeconfig") from error


def trust(configuration: Configuration) -> ssl.SSLContext:
    """Knows the API server, and shows it no certificate."""
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    # the CAs of many clusters lack a key identifier; kubectl accepts them too
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _check_as_configured(tls, configuration)
    return tls


def load_certificates(tls: ssl.SSLContext, configuration: Configuration) -> None:
    """Loads the CA and the client certificate again; new connections use them at once."""
    if configuration.ssl_ca_cert:
        tls.load_verify_locations(configuration.ssl_ca_cert)
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    _check_as_configured(tls, configuration)


def _check_as_configured(tls: ssl.SSLContext, configuration: Configuration) -> None:
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE


def context_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace of this pod, where `load_configuration` uses its service account; else of the
    kubeconfig's context, as kubectl chooses it; `default` if none is set."""
    if kubeconfig is None and context is None and (own := _pod_namespace()):
        return own
    chosen = _context(kubeconfig, context)
    return str(chosen.get("context", {}).get("namespace") or DEFAULT_NAMESPACE)


def namespace_mistake(kubeconfig: str | None = None) -> str:
    """Why no component of Cede may run in this pod; empty if it may, and outside of a cluster."""
    own = "" if kubeconfig else _pod_namespace()
    if own in ("", names.SYSTEM_NAMESPACE):
        return ""
    return (
        f"Cede runs in namespace {names.SYSTEM_NAMESPACE} only, once in a cluster, and this pod is "
        f"in namespace {own}: remove the namespace from your overlay"
    )


def context_name(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The name of the context that is used; empty without a kubeconfig, as in a pod."""
    if kubeconfig is None and context is None and _pod_namespace():
        return ""
    return str(_context(kubeconfig, context).get("name", ""))


def _context(kubeconfig: str | None, context: str | None) -> Json:
    """The context of this name, or the current one; empty without a kubeconfig."""
    try:
        contexts, current = list_kube_config_contexts(kubeconfig)
    except (ConfigException, TypeError, AttributeError):
        return {}
    chosen: Json = next((entry for entry in contexts if entry["name"] == context), current)
    return chosen


def _pod_namespace() -> str:
    """Empty outside of a pod with a service account."""
    try:
        load_incluster_config(client_configuration=Configuration())
        return Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace").read_text()
    except (ConfigException, OSError):
        return ""


def _socket_with_keepalive(address: Any) -> socket.socket:
    """A socket that detects within half a minute that its peer is gone.

    A server that loses power closes no connection.
    """
    connection = socket.socket(*address[:3])
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # seconds, seconds, count
    options = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
    for name, value in options.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection
