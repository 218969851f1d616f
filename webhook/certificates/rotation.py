"""What is to be done about our certificates: (what the Secret holds, what is published, now) → one
step. Pure.

A CA is replaced in an order that leaves no moment without trust: the new one is published beside
the old, then signs
the leaf, then the old one is dropped. Each replica may take each step; a write carries the version
it was decided on.
"""

from dataclasses import dataclass
from enum import Enum

DAY_S = 86400.0
CA_LIFE_S = 3650 * DAY_S
LEAF_LIFE_S = 90 * DAY_S
# an API server's clock may be behind ours; an early date costs nothing
BACKDATE_S = 7 * DAY_S
SETTLE_S = 120.0
"""How long a published CA, or a new leaf, gets to reach every API server and every replica."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key as PEM. Times in Unix seconds."""

    certificate: str
    key: str
    issued: float
    ends: float

    def is_early(self, now: float) -> bool:
        """It is not valid yet: a clock far ahead of ours has issued it, and nobody accepts it."""
        return now < self.issued - BACKDATE_S

    def is_valid(self, now: float) -> bool:
        return not self.is_early(now) and now < self.ends

    def is_worn(self, now: float) -> bool:
        """Two thirds of its life are over."""
        return now >= self.issued + (self.ends - self.issued) * 2 / 3


@dataclass(frozen=True)
class Held:
    """What the Secret holds. None for what is missing, unreadable, or does not fit: a leaf that
    `ca` has not signed."""

    ca: Pair | None = None
    leaf: Pair | None = None
    # published, and not yet signing
    next_ca: Pair | None = None
    # no longer signing, and still published
    previous_ca: str = ""

    @property
    def bundle(self) -> str:
        """Every CA that a leaf in service may be signed by: what belongs in each `caBundle`."""
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


def due(held: Held, published: bool, now: float) -> tuple[Step | None, str]:
    """The next step and why; None when there is nothing to do. `published`: every configuration
    there is has the bundle."""
    if held.ca is None:
        return Step.ISSUE, "there is no usable CA"
    if now >= held.ca.ends:
        return Step.ISSUE, "the CA has expired"
    if held.ca.is_early(now):
        return Step.ISSUE, "the CA is not valid yet"
    if held.leaf is None:
        return Step.RENEW, "there is no usable certificate"
    if now >= held.leaf.ends:
        return Step.RENEW, "the certificate has expired"
    if held.leaf.is_early(now):
        return Step.RENEW, "the certificate is not valid yet"
    if not published:
        return Step.PUBLISH, "a webhook configuration does not trust what we serve"
    if held.next_ca and now >= held.next_ca.issued + SETTLE_S:
        return Step.PROMOTE, "the next CA is published everywhere"
    if held.previous_ca and now >= held.leaf.issued + SETTLE_S:
        return Step.DROP, "nothing it has signed is in service"
    if held.ca.is_worn(now) and held.next_ca is None and not held.previous_ca:
        return Step.STAGE, "two thirds of the CA's life are over"
    if held.leaf.is_worn(now):
        return Step.RENEW, "two thirds of the certificate's life are over"
    return None, "certificates are in order"


def rest(held: Held) -> float:
    """Seconds until it is worth looking again when nothing changes."""
    return SETTLE_S / 4 if held.next_ca or held.previous_ca else 3600.0
