"""One step at a time, in the order in which API servers always trust the served certificate."""

from dataclasses import replace

import pytest

from cede.api.certificates import DAY_S, Certificates
from quota_controller.certificates.issue import issue_ca, issue_leaf
from quota_controller.certificates.rotation import (
    CA_LIFETIME_S,
    LEAF_LIFETIME_S,
    RECHECK_INTERVAL_S,
    SETTLE_S,
    Step,
    next_step,
    seconds_until_recheck,
)

NOW = 1_800_000_000.0
CA = issue_ca(NOW)
STORED = Certificates(CA, issue_leaf(CA, NOW))
NEXT_CA = issue_ca(NOW + 7 * 365 * DAY_S)


@pytest.mark.parametrize(
    ("stored", "published", "elapsed_s", "step"),
    [
        pytest.param(Certificates(), True, 0, Step.ISSUE, id="nothing is stored"),
        pytest.param(Certificates(CA), False, 0, Step.PUBLISH, id="only a CA"),
        pytest.param(Certificates(CA), True, 0, Step.RENEW, id="only a CA, which is published"),
        pytest.param(STORED, False, 0, Step.PUBLISH, id="a bundle was edited"),
        pytest.param(STORED, True, 0, None, id="in order"),
        pytest.param(STORED, True, LEAF_LIFETIME_S * 0.66, None, id="not due yet"),
        pytest.param(
            STORED, True, LEAF_LIFETIME_S * 0.67, Step.RENEW, id="two thirds of the lifetime"
        ),
        pytest.param(
            STORED, False, LEAF_LIFETIME_S + 1, Step.RENEW, id="expired: renewed before publishing"
        ),
        pytest.param(STORED, True, CA_LIFETIME_S + 1, Step.ISSUE, id="the CA has expired"),
        pytest.param(STORED, True, -2 * DAY_S, None, id="a clock that is two days slow"),
        pytest.param(STORED, True, -20 * DAY_S, None, id="a CA that is not valid yet: kept"),
        pytest.param(
            STORED, False, -20 * DAY_S, Step.PUBLISH, id="a CA that is not valid yet: published"
        ),
        pytest.param(
            Certificates(CA, issue_leaf(CA, NOW + 20 * DAY_S)),
            True,
            0,
            Step.RENEW,
            id="a certificate that is not valid yet",
        ),
    ],
)
def test_the_next_step(
    stored: Certificates, published: bool, elapsed_s: float, step: Step | None
) -> None:
    assert next_step(stored, published, NOW + elapsed_s)[0] is step


def test_a_certificate_waits_until_api_servers_can_know_its_ca() -> None:
    assert next_step(Certificates(CA), True, NOW, installed=False)[0] is None
    aging = NOW + LEAF_LIFETIME_S * 0.67
    assert next_step(STORED, True, aging, installed=False)[0] is Step.RENEW


def test_a_new_ca_is_issued_when_an_admin_asks_for_one() -> None:
    assert next_step(STORED, True, NOW, new_ca_is_wanted=True)[0] is Step.STAGE
    # one after the other
    staged = replace(STORED, next_ca=NEXT_CA)
    assert next_step(staged, True, NOW, new_ca_is_wanted=True)[0] is None
    assert next_step(STORED, False, NOW, new_ca_is_wanted=True)[0] is Step.PUBLISH


def test_a_ca_is_replaced_in_the_order_that_keeps_trust() -> None:
    late = NEXT_CA.issued - 60
    aging = Certificates(CA, issue_leaf(CA, late))
    assert next_step(aging, True, late)[0] is Step.STAGE
    staged = replace(aging, next_ca=NEXT_CA)
    assert next_step(staged, False, late + 70)[0] is Step.PUBLISH
    # API servers need a moment to read the new bundle
    assert next_step(staged, True, late + 70)[0] is None
    assert next_step(staged, True, NEXT_CA.issued + SETTLE_S)[0] is Step.PROMOTE
    promoted = Certificates(
        NEXT_CA, issue_leaf(NEXT_CA, NEXT_CA.issued + SETTLE_S), None, CA.certificate
    )
    blocks = {block.strip() for block in split_bundle(promoted.bundle)}
    assert {CA.certificate.strip(), NEXT_CA.certificate.strip()} <= blocks
    # other replicas still serve the previous certificate
    assert next_step(promoted, True, NEXT_CA.issued + SETTLE_S + 1)[0] is None
    assert next_step(promoted, True, NEXT_CA.issued + 3 * SETTLE_S)[0] is Step.DROP


def test_a_rotation_in_progress_is_checked_more_often() -> None:
    assert seconds_until_recheck(STORED, NOW) == RECHECK_INTERVAL_S
    assert seconds_until_recheck(replace(STORED, next_ca=NEXT_CA), NOW) < SETTLE_S
    assert seconds_until_recheck(replace(STORED, previous_ca=CA.certificate), NOW) < SETTLE_S


def test_a_corrected_clock_is_noticed_soon() -> None:
    assert seconds_until_recheck(STORED, NOW - 20 * DAY_S) < SETTLE_S


def split_bundle(bundle: str) -> list[str]:
    end = "-----END CERTIFICATE-----\n"
    return [block + end for block in bundle.split(end) if block.strip()]
