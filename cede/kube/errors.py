"""The refusals of the API server as exceptions."""

from cede.api.objects import Key


class ApiError(Exception):
    """The API server refused a request, or was not reachable (status 0)."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def is_denied(self) -> bool:
        """Whether an admission webhook or policy of a third party refused it, with whatever status
        (k8s.io/apiserver: admission/plugin/webhook/errors, admission/plugin/policy/validating)."""
        return "denied the request" in self.message or "denied request" in self.message

    @property
    def concerns_object(self) -> bool:
        """Whether something is wrong with this object, or a third party refuses it. Then it says
        nothing about our rights."""
        return False


class NotFound(ApiError): ...


class Conflict(ApiError):
    """The object has changed since it was read."""


class AlreadyExists(ApiError): ...


class Gone(ApiError):
    """The requested version is too old: list again."""


class Invalid(ApiError):
    @property
    def concerns_object(self) -> bool:
        return True


class Forbidden(ApiError):
    @property
    def concerns_object(self) -> bool:
        """Not if we have no right to such requests (k8s.io/apiserver: handlers/responsewriters/
        errors.go)."""
        has_no_right = 'User "' in self.message and '" cannot ' in self.message
        return self.is_denied or not has_no_right


class Unauthorized(ApiError): ...


class TooManyRequests(ApiError):
    """Try again after `retry_after_s`."""


class Unreachable(ApiError):
    """There was no response: the connection was refused, broke, or timed out."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class Unreadable(ApiError):
    """An object does not have the form of its kind; the message names the object.

    `key` is empty if not even the name could be read.
    """

    def __init__(self, message: str, key: Key = ("", "")) -> None:
        super().__init__(0, "Unreadable", message)
        self.key = key


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


def from_status(status: int, reason: str, message: str, retry_after: str = "") -> ApiError:
    """The exception for a Status of the server."""
    cls = _BY_STATUS.get(status, ApiError)
    if reason == "AlreadyExists":
        cls = AlreadyExists
    # a 504 with `Too large resource version` needs a new list; any other is an ordinary timeout
    if status == 504 and "version" not in message:
        cls = ApiError
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    return cls(status, reason, message, seconds)
