"""The virtual clock."""

from scheduler.simulate.clock import START, Clock


def test_events_happen_in_the_order_of_their_times_then_of_their_planning() -> None:
    clock = Clock()
    happened: list[tuple[str, float]] = []
    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        clock.after(seconds, lambda name=name: happened.append((name, clock.now - START)))  # type: ignore[misc]
    clock.run(START + 5)
    assert happened == [("first", 1.0), ("second", 1.0), ("late", 2.0)]
    assert clock.now == START + 5


def test_an_event_that_an_event_plans_happens_in_the_same_run() -> None:
    clock = Clock()
    happened: list[float] = []
    clock.after(1, lambda: clock.after(1, lambda: happened.append(clock.now)))
    clock.run(START + 2)
    assert happened == [START + 2]


def test_what_is_planned_in_the_past_happens_now() -> None:
    clock = Clock()
    happened: list[float] = []
    clock.at_time(START - 5, lambda: happened.append(clock.now))
    clock.run(START)
    assert happened == [START]
