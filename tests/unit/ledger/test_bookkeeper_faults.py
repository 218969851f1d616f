"""What the ledger does when it cannot see, or cannot write."""

from typing import Any

from ledger.bookkeeper import MAX_SILENCE
from ledger.timeline import SECOND
from tests.builders.ledger import NOW, Ledger, seen_at, workload

GPT = [workload("gpt", pods=4)]


def looks(ledger: Ledger, start: int, end: int, **picture: Any) -> None:
    for second in range(start, end + 1, 10):
        ledger.look(seen_at(NOW + second * SECOND, **picture))


def test_a_database_that_refuses_for_hours_loses_nothing() -> None:
    """Nor does the ledger need more memory the longer that lasts."""
    ledger = Ledger()
    for second in range(0, 7200, 10):
        pods = 4 if second % 20 else 8
        moment = seen_at(NOW + second * SECOND, workloads=[workload("gpt", pods=pods)])
        ledger.look(moment, refuses=True)
    looks(ledger, 7200, 7210, workloads=GPT)
    assert ledger.job("gpt")["used"] == (6 * 7200 + 4 * 10) * SECOND
    assert ledger.gap == 0
    assert len(ledger.total.jobs) == 1


def test_a_silent_server_is_a_gap_from_its_last_sign() -> None:
    ledger = Ledger()
    looks(ledger, 0, 60, workloads=GPT)
    silence = MAX_SILENCE // SECOND
    for second in range(70, silence + 100, 10):
        ledger.look(seen_at(NOW + second * SECOND, workloads=GPT, confirmed=NOW + 65 * SECOND))
    end = silence + 100
    looks(ledger, end, end + 20, workloads=[workload("gpt", pods=8)])
    assert ledger.job("gpt")["used"] == (65 * 4 + 20 * 8) * SECOND
    [gap] = ledger.total.gaps
    assert (gap.begin - NOW, gap.end - NOW) == (65 * SECOND, end * SECOND)
    assert gap.reason == "the API server was silent"


def test_what_a_quiet_server_confirms_later_is_counted_then() -> None:
    """A server says once a minute that nothing has changed."""
    ledger = Ledger()
    for second in range(0, 130, 10):
        confirmed = NOW + second // 60 * 60 * SECOND
        ledger.look(seen_at(NOW + second * SECOND, workloads=GPT, confirmed=confirmed))
    assert ledger.job("gpt")["used"] == 4 * 120 * SECOND
    assert ledger.gap == 0


def test_without_a_policy_nothing_can_be_counted() -> None:
    ledger = Ledger()
    looks(ledger, 0, 50, workloads=GPT, without_policy=True)
    looks(ledger, 60, 90, workloads=GPT)
    assert ledger.job("gpt")["used"] == 4 * 30 * SECOND
    assert [gap.reason for gap in ledger.total.gaps] == ["there was no ClusterPolicy"]


def test_a_machine_that_slept_is_a_gap() -> None:
    ledger = Ledger()
    looks(ledger, 0, 20, workloads=GPT)
    looks(ledger, 3600, 3620, workloads=GPT)
    assert ledger.job("gpt")["used"] == 4 * 40 * SECOND
    assert [gap.reason for gap in ledger.total.gaps] == ["the ledger made no pass"]
