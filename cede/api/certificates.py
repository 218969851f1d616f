"""PURE. The certificates of the webhook as values: a CA, and a certificate that it has signed."""

from dataclasses import dataclass

DAY_S = 86400.0
# API servers may have slower clocks, and an early date does no harm
BACKDATE_S = 7 * DAY_S


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

    def has_valid_leaf(self, now: float) -> bool:
        return self.leaf is not None and self.leaf.is_valid(now)

    @property
    def bundle(self) -> str:
        """PEM of every CA that may have signed a served certificate: the value for `caBundle`."""
        parts = [
            self.ca.certificate if self.ca else "",
            self.next_ca.certificate if self.next_ca else "",
            self.previous_ca,
        ]
        return "".join(part.strip() + "\n" for part in parts if part.strip())
