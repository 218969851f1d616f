"""When failures in a row are no coincidence any more."""

from elastic_runtime.training.repeated_failures import RepeatedFailures


def test_generations_that_do_not_form_are_repeated_from_the_third_on() -> None:
    failures = RepeatedFailures()
    assert [failures.add_join("a") for _ in range(4)] == [False, False, True, True]
    assert failures.formed()
    assert not failures.formed()
    assert not failures.add_join("a")


def test_generations_of_other_processes_that_do_not_form_are_another_attempt() -> None:
    failures = RepeatedFailures()
    attempts = ["a", "a", "b", "b", "c"]
    assert not any(failures.add_join(attempt) for attempt in attempts)
    assert not failures.formed()


def test_that_joins_were_repeated_is_known_until_a_generation_forms() -> None:
    failures = RepeatedFailures()
    assert [failures.add_join(attempt) for attempt in "aaab"] == [False, False, True, False]
    assert failures.formed()


def test_a_step_that_fails_among_other_processes_is_another_attempt() -> None:
    failures = RepeatedFailures()
    attempts = ["a", "a", "b", "b", "b", "a"]
    assert [failures.add_step(attempt) for attempt in attempts] == [False] * 4 + [True, False]
