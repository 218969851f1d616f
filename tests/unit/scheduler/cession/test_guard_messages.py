"""What the message of a Cession tells of guards."""

from dataclasses import replace

import pytest

from cede.api.cession import Cession
from cede.api.objects import rfc3339
from scheduler.actions import UpdateCession
from scheduler.cession.advance import advance
from scheduler.snapshot.guards import Guard
from scheduler.snapshot.snapshot import Snapshot
from tests.builders.guards import ADMITTED, KEEPS, LOW, past_own, record
from tests.builders.scheduler import FLAVOR, NOW, cession, cohort_quota, pending, queue, snapshot

ASKED = "A target accepted its new size and finishes its step."


def message(made: Cession, current: Snapshot) -> str:
    """As it is after the next pass."""
    updates = [a for a in advance(made, current, NOW).actions if isinstance(a, UpdateCession)]
    return updates[0].status.message if updates else made.status.message


def waiting(*guards: Guard) -> Snapshot:
    return past_own(*guards, target=LOW, records=[record()])


@pytest.mark.parametrize("guard", [None, Guard("c-1"), ADMITTED, replace(KEEPS, is_observed=False)])
def test_a_cession_that_waits_for_its_guard_says_so(guard: Guard | None) -> None:
    guards = (guard,) if guard else ()
    expected = f"{ASKED} Nothing is released before Kueue has admitted a guard."
    assert message(record(), waiting(*guards)) == expected


def test_it_says_what_the_guard_keeps_and_since_when() -> None:
    made = record(reserved=rfc3339(NOW - 2, micro=True))
    kept = f"A guard keeps 4 nvidia.com/gpu for the preemptor since {rfc3339(NOW - 2)}."
    assert message(made, waiting(KEEPS)) == f"{ASKED} {kept}"
    assert rfc3339(NOW) in message(record(), waiting(KEEPS))


def test_it_says_for_whose_guard_it_waits() -> None:
    other = replace(KEEPS, cession="c-0")
    assert message(record(), waiting(other)).endswith("so this waits for the end of Cession c-0.")


def test_it_says_that_no_guard_can_keep_what_is_released() -> None:
    current = replace(waiting(), placed_flavors=frozenset({FLAVOR}))
    assert message(record(), current).endswith("so another job may take it.")
    quota = cohort_quota(queue("vision", strategy="StrictFIFO"), queue("research", used=8))
    within_own = snapshot(quota, pending=[pending()], admitted=LOW)
    within_own = replace(within_own, placed_flavors=frozenset({FLAVOR}))
    assert "another job" not in message(record(), within_own)


def test_it_says_that_no_guard_is_made_while_kueue_preempts() -> None:
    current = replace(waiting(), kueue_preempts=True)
    assert message(record(), current).endswith(
        "No guard is made while Kueue preempts by its own rules."
    )


def test_what_it_said_about_a_guard_goes_with_the_guard() -> None:
    made = cession("Asked", to_size=0, how="Stop")
    status = made.status.model_copy(update={"message": f"{ASKED} A guard keeps 4 of it."})
    made = made.model_copy(update={"status": status})
    within_own = waiting()
    assert "guard" not in message(made, within_own)
