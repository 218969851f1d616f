"""The server's refusals as exceptions."""


class ApiError(Exception):
    """The API server refused, or could not be reached (status 0)."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


class NotFound(ApiError): ...


class Conflict(ApiError):
    """The object is no longer the one that was planned on."""


class AlreadyExists(ApiError): ...


class Gone(ApiError):
    """The version asked for is too old: list again."""


class Invalid(ApiError): ...


class Forbidden(ApiError): ...


class Unauthorized(ApiError): ...


class TooManyRequests(ApiError):
    """`retry_after_s` says when to come again."""


class Unreachable(ApiError):
    """No answer: connection refused, dropped, or timed out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class Unreadable(ApiError):
    """An object is not what its Kind says: the message names it."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreadable", message)


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
    504: Gone,
}


def error(status: int, reason: str, message: str, retry_after: str = "") -> ApiError:
    """The exception for a Status of the server. 504 is `too large resource version`, which only a
    new list cures."""
    cls = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ApiError)
    if status == 504 and "version" not in message:
        cls = ApiError
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    return cls(status, reason, message, seconds)
