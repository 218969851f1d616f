"""What is to be done about certificates: one step at a time, in the order that keeps trust."""

from dataclasses import replace

import pytest

from webhook.certificates.keeper import issue_ca, issue_leaf
from webhook.certificates.rotation import CA_LIFE_S, DAY_S, LEAF_LIFE_S, SETTLE_S, Held, Step, due

NOW = 1_800_000_000.0
CA = issue_ca(NOW)
HELD = Held(CA, issue_leaf(CA, NOW))
NEXT = issue_ca(NOW + 7 * 365 * DAY_S)


@pytest.mark.parametrize(
    ("held", "published", "at", "step"),
    [
        pytest.param(Held(), True, 0, Step.ISSUE, id="nothing there"),
        pytest.param(Held(CA), True, 0, Step.RENEW, id="a CA only"),
        pytest.param(HELD, False, 0, Step.PUBLISH, id="bundle reset by hand"),
        pytest.param(HELD, True, 0, None, id="in order"),
        pytest.param(HELD, True, LEAF_LIFE_S * 0.66, None, id="young enough"),
        pytest.param(
            HELD, True, LEAF_LIFE_S * 0.67, Step.RENEW, id="two thirds of the certificate's life"
        ),
        pytest.param(
            HELD, False, LEAF_LIFE_S + 1, Step.RENEW, id="expired: a new one before anything else"
        ),
        pytest.param(HELD, True, CA_LIFE_S + 1, Step.ISSUE, id="the CA expired"),
        pytest.param(HELD, True, -2 * DAY_S, None, id="a clock two days behind"),
        pytest.param(HELD, True, -20 * DAY_S, Step.ISSUE, id="a CA that is not valid yet"),
        pytest.param(
            Held(CA, issue_leaf(CA, NOW + 20 * DAY_S)),
            True,
            0,
            Step.RENEW,
            id="a certificate that is not valid yet",
        ),
    ],
)
def test_the_next_step(held: Held, published: bool, at: float, step: Step | None) -> None:
    assert due(held, published, NOW + at)[0] is step


def test_a_ca_is_replaced_in_the_order_that_keeps_trust() -> None:
    late = NEXT.issued - 60
    worn = Held(CA, issue_leaf(CA, late))
    assert due(worn, True, late)[0] is Step.STAGE
    staged = replace(worn, next_ca=NEXT)
    assert due(staged, False, late + 70)[0] is Step.PUBLISH
    # API servers take a moment to hear of it
    assert due(staged, True, late + 70)[0] is None
    assert due(staged, True, NEXT.issued + SETTLE_S)[0] is Step.PROMOTE
    promoted = Held(NEXT, issue_leaf(NEXT, NEXT.issued + SETTLE_S), None, CA.certificate)
    assert {CA.certificate.strip(), NEXT.certificate.strip()} <= set(
        map(str.strip, _blocks(promoted.bundle))
    )
    # other replicas still serve the old one
    assert due(promoted, True, NEXT.issued + SETTLE_S + 1)[0] is None
    assert due(promoted, True, NEXT.issued + 3 * SETTLE_S)[0] is Step.DROP


def _blocks(bundle: str) -> list[str]:
    end = "-----END CERTIFICATE-----\n"
    return [block + end for block in bundle.split(end) if block.strip()]
