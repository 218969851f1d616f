"""PURE. Decides the next step for the certificates of the webhook, from the Secret, what is
published, and `now`.

API servers trust the served certificate. The Secret has a certificate only once its CA was
published, so the webhook serves whatever the Secret has, and need not know what API servers trust.
A CA is replaced in this order: the next CA is published beside the current one, then signs a new
certificate, and then the previous CA is dropped.

One case has a gap. When the Secret was lost and nobody kept its content, the first certificate
follows the publication of its CA within a second or two. An API server that is slower to read the
CA bundle does not trust the webhook until it has. Waiting would be worse: a webhook that restarts
meanwhile has no certificate at all.
"""

from enum import Enum

from cede.api.certificates import DAY_S, Certificates

CA_LIFETIME_S = 3650 * DAY_S
LEAF_LIFETIME_S = 90 * DAY_S
SETTLE_S = 120.0
"""How long a published CA or a new certificate needs to reach every API server and replica."""
RECHECK_INTERVAL_S = 3600.0


class Step(Enum):
    ISSUE = "issue a CA"
    RENEW = "issue a certificate"
    PUBLISH = "publish the CAs"
    STAGE = "issue the next CA"
    PROMOTE = "let the next CA sign"
    DROP = "drop the previous CA"


def next_step(
    stored: Certificates,
    published: bool,
    now: float,
    *,
    installed: bool = True,
    new_ca_is_wanted: bool = False,
) -> tuple[Step | None, str]:
    """The step to take, or None, and the reason.

    `published`: every webhook configuration that exists has `stored.bundle` and names the Service
    of this installation. `installed`: all of them exist. `new_ca_is_wanted`: an admin asks for
    another CA, such as after a leak.
    """
    ca = stored.ca
    leaf = stored.leaf
    if ca is None:
        return Step.ISSUE, "there is no usable CA"
    if now >= ca.expires:
        return Step.ISSUE, "the CA has expired"
    if ca.is_early(now):
        # the wrong clock may be ours, and the CA a good one
        why = (
            "the CA is not valid yet by this clock, so it is kept: correct the clock of this node, "
            "or if it is right, delete the Secret"
        )
        return None if published else Step.PUBLISH, why
    if leaf and now >= leaf.expires:
        return Step.RENEW, "the certificate has expired"
    if leaf and leaf.is_early(now):
        return Step.RENEW, "the certificate is not valid yet"
    if not published:
        why = "a webhook configuration does not have the current CA bundle and Service"
        return Step.PUBLISH, why
    if leaf is None and not installed:
        return None, "a webhook configuration is missing, so API servers do not know the CA"
    if leaf is None:
        return Step.RENEW, "there is no usable certificate"
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


def seconds_until_recheck(stored: Certificates, now: float) -> float:
    """How long to wait for the next pass when nothing changes. Shorter during a CA rotation, and
    without a valid certificate: the clock may be corrected."""
    if stored.next_ca or stored.previous_ca or not stored.has_valid_leaf(now):
        return SETTLE_S / 4
    return RECHECK_INTERVAL_S
