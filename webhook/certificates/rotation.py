"""PURE. Decides the next step for our certificates, from the Secret, what is published, and `now`.

API servers trust the served certificate at every moment of a CA rotation: the next CA is published
beside the current one, then signs a new certificate, and then the previous CA is dropped. Every
replica may take every step. A write carries the resource version of the state it was decided on.
"""

from dataclasses import dataclass
from enum import Enum

DAY_S = 86400.0
CA_LIFETIME_S = 3650 * DAY_S
LEAF_LIFETIME_S = 90 * DAY_S
# API servers may have slower clocks, and an early date does no harm
BACKDATE_S = 7 * DAY_S
SETTLE_S = 120.0
"""How long a published CA or a new certificate needs to reach every API server and replica."""
RECHECK_INTERVAL_S = 3600.0


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its key as PEM. Times in Unix seconds."""

    certificate: str
    key: str
    issued: float
    expires: float

    def is_early(self, now: float) -> bool:
        """True before its validity begins: it was issued by a clock far ahead of ours."""
        return now < self.issued - BACKDATE_S

    def is_valid(self, now: float) -> bool:
        return not self.is_early(now) and now < self.expires

    def is_aging(self, now: float) -> bool:
        """True after two thirds of its lifetime."""
        return now >= self.issued + (self.expires - self.issued) * 2 / 3


@dataclass(frozen=True)
class Certificates:
    """The content of the Secret. A part that is missing, unreadable or inconsistent is None; a
    `leaf` that `ca` has not signed is inconsistent."""

    ca: KeyPair | None = None
    # the certificate that is served
    leaf: KeyPair | None = None
    # published, and does not sign yet
    next_ca: KeyPair | None = None
    # PEM; does not sign any more, and is still published
    previous_ca: str = ""

    @property
    def bundle(self) -> str:
        """PEM of every CA that may have signed a served certificate: the value for `caBundle`."""
        parts = [
            self.ca.certificate if self.ca else "",
            self.next_ca.certificate if self.next_ca else "",
            self.previous_ca,
        ]
        return "".join(part.strip() + "\n" for part in parts if part.strip())


class Step(Enum):
    ISSUE = "issue a CA and a certificate"
    RENEW = "issue a certificate"
    PUBLISH = "publish the CAs"
    STAGE = "issue the next CA"
    PROMOTE = "let the next CA sign"
    DROP = "drop the previous CA"


def next_step(
    stored: Certificates, published: bool, now: float, *, new_ca_is_wanted: bool = False
) -> tuple[Step | None, str]:
    """The step to take, or None, and the reason.

    `published`: every webhook configuration has `stored.bundle`. `new_ca_is_wanted`: an admin asks
    for another CA, such as after a leak.
    """
    ca = stored.ca
    leaf = stored.leaf
    if ca is None:
        return Step.ISSUE, "there is no usable CA"
    if now >= ca.expires:
        return Step.ISSUE, "the CA has expired"
    if ca.is_early(now):
        return Step.ISSUE, "the CA is not valid yet"
    if leaf is None:
        return Step.RENEW, "there is no usable certificate"
    if now >= leaf.expires:
        return Step.RENEW, "the certificate has expired"
    if leaf.is_early(now):
        return Step.RENEW, "the certificate is not valid yet"
    if not published:
        return Step.PUBLISH, "a webhook configuration does not have the current CA bundle"
    if stored.next_ca and now >= stored.next_ca.issued + SETTLE_S:
        return Step.PROMOTE, "the next CA is published everywhere"
    if stored.previous_ca and now >= leaf.issued + SETTLE_S:
        return Step.DROP, "no served certificate is signed by the previous CA"
    if stored.next_ca is None and not stored.previous_ca:
        if ca.is_aging(now):
            return Step.STAGE, "two thirds of the CA's lifetime are over"
        if new_ca_is_wanted:
            return Step.STAGE, "an admin asks for a new CA"
    if leaf.is_aging(now):
        return Step.RENEW, "two thirds of the certificate's lifetime are over"
    return None, "certificates are in order"


def seconds_until_recheck(stored: Certificates) -> float:
    """How long to wait for the next pass when nothing changes; shorter during a CA rotation."""
    return SETTLE_S / 4 if stored.next_ca or stored.previous_ca else RECHECK_INTERVAL_S
