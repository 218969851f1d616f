"""Our own CA: issue, keep in a Secret, serve, publish, rotate, without a restart."""

import base64
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from prometheus_client import Gauge

from cede.api.names import MANAGED_BY, MANAGED_BY_CEDE, SYSTEM_NAMESPACE, WEBHOOK
from cede.api.objects import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Json
from cede.kube.cache import Cache
from cede.kube.client import AlreadyExists, Client, Conflict, NotFound
from webhook.certificates.rotation import (
    BACKDATE_S,
    CA_LIFE_S,
    LEAF_LIFE_S,
    Held,
    Pair,
    Step,
    due,
    rest,
)

log = logging.getLogger(__name__)
SECRET = (SYSTEM_NAMESPACE, "cede-webhook-cert")
CONFIGURATION = ("", WEBHOOK)
HOSTS = (f"{WEBHOOK}.{SYSTEM_NAMESPACE}.svc", f"{WEBHOOK}.{SYSTEM_NAMESPACE}.svc.cluster.local")
CERTIFICATE_ENDS = Gauge(
    "cede_webhook_certificate_not_after_seconds",
    "When the certificate in service expires, in Unix seconds",
)


# --- issuing --------------------------------------------------------------------------------------
def issue_ca(now: float) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [
            x509.NameAttribute(
                NameOID.COMMON_NAME, f"cede-webhook CA {x509.random_serial_number():x}"[:64]
            )
        ]
    )
    usage = {name: name in ("key_cert_sign", "crl_sign", "digital_signature") for name in _USAGES}
    builder = _builder(name, name, key.public_key(), now, now + CA_LIFE_S)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(x509.KeyUsage(**usage), critical=True)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue_leaf(ca: Pair, now: float, hosts: tuple[str, ...] = HOSTS) -> Pair:
    """A server certificate for `hosts`; it does not outlive its CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.load_pem_x509_certificate(ca.certificate.encode())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    builder = _builder(name, issuer.subject, key.public_key(), now, min(now + LEAF_LIFE_S, ca.ends))
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (x509.KeyUsage(**{name: name == "digital_signature" for name in _USAGES}), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts]), False),
        (authority, False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    return _pair(builder.sign(_private(ca.key), hashes.SHA256()), key)


_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issued: float,
    ends: float,
) -> x509.CertificateBuilder:
    begins = datetime.fromtimestamp(issued - BACKDATE_S, UTC)
    until = datetime.fromtimestamp(ends, UTC)
    builder = x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), begins, until
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    issued = certificate.not_valid_before_utc.timestamp() + BACKDATE_S
    ends = certificate.not_valid_after_utc.timestamp()
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(), pem.decode(), issued, ends
    )


def _private(pem: str) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem.encode(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is not of the kind we issue")
    return key


# --- the Secret -----------------------------------------------------------------------------------
def read(secret: Json | None, hosts: tuple[str, ...] = HOSTS) -> Held:
    """What the Secret holds and fits together; whatever somebody has put into it."""
    data = {name: _decoded(text) for name, text in ((secret or {}).get("data") or {}).items()}
    ca = _read_pair(data.get("ca.crt", ""), data.get("ca.key", ""))
    leaf = _read_pair(data.get("tls.crt", ""), data.get("tls.key", ""))
    if ca is None or leaf is None or not _signed(leaf, ca, hosts):
        leaf = None
    previous = data.get("previous-ca.crt", "")
    with suppress(ValueError):
        return Held(
            ca,
            leaf,
            _read_pair(data.get("next-ca.crt", ""), data.get("next-ca.key", "")),
            _checked(previous),
        )
    return Held(ca, leaf, _read_pair(data.get("next-ca.crt", ""), data.get("next-ca.key", "")))


def secret_data(held: Held) -> dict[str, str]:
    """`read` of it gives `held` again."""
    pairs = (("ca", held.ca), ("tls", held.leaf), ("next-ca", held.next_ca))
    texts = {f"{name}.crt": pair.certificate for name, pair in pairs if pair}
    texts |= {f"{name}.key": pair.key for name, pair in pairs if pair}
    texts |= {"previous-ca.crt": held.previous_ca} if held.previous_ca else {}
    return {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}


def _decoded(text: object) -> str:
    with suppress(ValueError):
        return base64.b64decode(str(text)).decode()
    return ""


def _checked(pem: str) -> str:
    if pem:
        x509.load_pem_x509_certificates(pem.encode())
    return pem


def _read_pair(certificate: str, key: str) -> Pair | None:
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        private = _private(key)
    except (ValueError, TypeError):
        return None
    return _pair(found, private) if found.public_key() == private.public_key() else None


def _signed(leaf: Pair, ca: Pair, hosts: tuple[str, ...]) -> bool:
    found, issuer = (
        x509.load_pem_x509_certificate(pair.certificate.encode()) for pair in (leaf, ca)
    )
    try:
        found.verify_directly_issued_by(issuer)
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return set(names.get_values_for_type(x509.DNSName)) >= set(hosts)


# --- serving --------------------------------------------------------------------------------------
def load(context: ssl.SSLContext, pair: Pair) -> None:
    """New handshakes get this certificate, open connections go on. The key touches no disk: OpenSSL
    reads a memory file."""
    descriptor = os.memfd_create("certificate")
    try:
        os.write(descriptor, (pair.key + pair.certificate).encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


# --- look, decide, act ----------------------------------------------------------------------------
class Keeper:
    """Keeps Secret, served certificate and published CAs in order. Each replica runs one; they
    share the work by accident."""

    def __init__(
        self,
        client: Client,
        context: ssl.SSLContext,
        wake: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        namespace, name = SECRET
        self._client = client
        self._context = context
        self._clock = clock
        self.secret = Cache[Json](
            client, SECRETS, dict, namespace=namespace, fields=f"metadata.name={name}", changed=wake
        )
        self.configurations = {
            kind: Cache[Json](
                client, kind, dict, fields=f"metadata.name={CONFIGURATION[1]}", changed=wake
            )
            for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        }
        # the last that could be served: survives the Secret
        self._good = Held()
        self._trusted = False

    @property
    def serves(self) -> bool:
        """A certificate is loaded that is valid now and that the published bundle trusts, or did
        once: a bundle reset by hand is back
        before anybody who was sent elsewhere would be."""
        return (
            self._trusted
            and self._good.leaf is not None
            and self._good.leaf.is_valid(self._clock())
        )

    @property
    def caches(self) -> list[Cache[Json]]:
        return [self.secret, *self.configurations.values()]

    async def reconcile(self) -> float:
        """One pass: serve what the Secret holds, then at most one step."""
        secret = self.secret.get(SECRET)
        now = self._clock()
        held = read(secret)
        if held.leaf and held != self._good and held.leaf.is_valid(now):
            load(self._context, held.leaf)
            self._good = held
            CERTIFICATE_ENDS.set(held.leaf.ends)
        published = not self._unpublished(held)
        trusted = published and all(
            cache.get(CONFIGURATION) for cache in self.configurations.values()
        )
        self._trusted = self._trusted or (trusted and self._good == held)
        step, why = due(held, published, now)
        if step is None:
            return rest(held)
        log.info("certificate step", extra={"step": step.value, "why": why})
        # another replica was first; the next pass sees what it did
        with suppress(Conflict, AlreadyExists, NotFound):
            if step is Step.PUBLISH:
                await self._publish(held)
            else:
                await self._write(secret, self._next(step, held, now))
        return 1.0

    def _next(self, step: Step, held: Held, now: float) -> Held:
        """What the Secret should hold after the step."""
        if step is Step.ISSUE or held.ca is None:
            good = self._good
            if good.ca and good.leaf and good.ca.is_valid(now) and good.leaf.is_valid(now):
                # the Secret was lost, not the certificate: nobody notices
                return good
            ca = issue_ca(now)
            return Held(ca, issue_leaf(ca, now))
        if step is Step.STAGE:
            return Held(held.ca, held.leaf, issue_ca(now), held.previous_ca)
        if step is Step.PROMOTE and held.next_ca:
            return Held(held.next_ca, issue_leaf(held.next_ca, now), None, held.ca.certificate)
        if step is Step.DROP:
            return Held(held.ca, held.leaf, held.next_ca)
        return Held(held.ca, issue_leaf(held.ca, now), held.next_ca, held.previous_ca)

    async def _write(self, secret: Json | None, held: Held) -> None:
        namespace, name = SECRET
        meta: Json = {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGED_BY_CEDE}}
        body: Json = {"metadata": meta, "type": "kubernetes.io/tls", "data": secret_data(held)}
        if secret is None:
            await self._client.create(SECRETS, body, namespace=namespace)
            return
        version = {"resourceVersion": secret["metadata"]["resourceVersion"]}
        # the type cannot change
        body |= {"metadata": meta | version, "type": secret.get("type", "Opaque")}
        await self._client.replace(SECRETS, SECRET, body)

    def _unpublished(self, held: Held) -> bool:
        bundle = _bundle(held)
        return any(
            hook.get("clientConfig", {}).get("caBundle") != bundle
            for cache in self.configurations.values()
            if (found := cache.get(CONFIGURATION))
            for hook in found.get("webhooks") or []
        )

    async def _publish(self, held: Held) -> None:
        """Every hook of ours trusts every CA in use. The version planned on goes with it: hooks are
        told by position."""
        for kind, cache in self.configurations.items():
            if not (found := cache.get(CONFIGURATION)):
                continue
            hooks = found.get("webhooks") or []
            bundle = _bundle(held)
            paths = [
                f"/webhooks/{i}/clientConfig/caBundle"
                for i, h in enumerate(hooks)
                if h["clientConfig"].get("caBundle") != bundle
            ]
            if paths:
                version = {
                    "op": "replace",
                    "path": "/metadata/resourceVersion",
                    "value": found["metadata"]["resourceVersion"],
                }
                body = [version, *({"op": "add", "path": path, "value": bundle} for path in paths)]
                await self._client.patch(kind, CONFIGURATION, body)


def _bundle(held: Held) -> str:
    return base64.b64encode(held.bundle.encode()).decode()
