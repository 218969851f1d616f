"""How the local cluster waits."""

import pytest

from deploy.local import shell
from deploy.local.paths import Failure


class Clock:
    """Stands for the module `time`, as the waiting uses it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(shell, "time", clock)
    return clock


def test_a_slow_probe_takes_at_most_half_of_the_processor(clock: Clock) -> None:
    answers = iter([(0.01, ""), (3.0, ""), (0.5, "here")])

    def probe() -> str:
        seconds, answer = next(answers)
        clock.now += seconds
        return answer

    assert shell.wait_until(probe, "a node", 60) == "here"
    assert clock.pauses == pytest.approx([0.05, 3.0])


def test_a_wait_that_is_over_names_what_it_waited_for(clock: Clock) -> None:
    with pytest.raises(Failure, match="waited 10 s for a node"):
        shell.wait_until(lambda: False, "a node", 10, interval_s=1)
    assert 10 <= clock.now <= 12
