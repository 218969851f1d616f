"""The clock of a leader does not jump while a Cession is followed."""

from scheduler.leader_clock import LeaderClock


class Machine:
    """The two clocks of a machine."""

    def __init__(self) -> None:
        self.wall = 5000.0
        self.monotonic = 100.0

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


def test_it_advances_with_the_monotonic_clock() -> None:
    machine = Machine()
    clock = LeaderClock(lambda: machine.wall, lambda: machine.monotonic)
    machine.run(10)
    machine.wall -= 3600
    assert clock.now() == 5010


def test_it_follows_the_system_when_it_may() -> None:
    """The time since when we lead stays as long ago as it was."""
    machine = Machine()
    clock = LeaderClock(lambda: machine.wall, lambda: machine.monotonic)
    machine.run(10)
    clock.note_pass()
    machine.run(10)
    machine.wall += 3600
    clock.adjust()
    assert clock.now() == 8620
    assert clock.led_since == 8610


def test_after_a_gap_without_passes_a_new_lead_begins() -> None:
    """The process lost its lease and got it back, or was suspended."""
    machine = Machine()
    clock = LeaderClock(lambda: machine.wall, lambda: machine.monotonic)
    clock.note_pass()
    for _ in range(4):
        machine.run(10)
        clock.note_pass()
    assert clock.led_since == 5000
    assert clock.leads
    machine.run(16)
    assert not clock.leads
    clock.note_pass()
    assert clock.leads
    assert clock.led_since == clock.now() == 5056
