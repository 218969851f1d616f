"""The exception for a Status of the server."""

import pytest

from cede.kube.errors import AlreadyExists, ApiError, Conflict, Gone, TooManyRequests, from_status


def test_a_409_is_a_conflict_or_an_existing_object() -> None:
    assert type(from_status(409, "Conflict", "changed")) is Conflict
    assert type(from_status(409, "AlreadyExists", "exists")) is AlreadyExists


@pytest.mark.parametrize(
    ("message", "expected"),
    [("Too large resource version: 9, current: 3", Gone), ("upstream timed out", ApiError)],
)
def test_a_504_needs_a_new_list_only_for_a_resource_version(
    message: str, expected: type[ApiError]
) -> None:
    assert type(from_status(504, "Timeout", message)) is expected


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("", 0.0), ("tomorrow", 0.0)])
def test_the_delay_is_that_of_the_header(header: str, seconds: float) -> None:
    error = from_status(429, "TooManyRequests", "busy", header)
    assert isinstance(error, TooManyRequests)
    assert error.retry_after_s == seconds


def test_a_status_without_a_class_of_its_own_is_an_api_error() -> None:
    error = from_status(418, "Teapot", "short and stout")
    assert type(error) is ApiError
    assert str(error) == "418 Teapot: short and stout"
