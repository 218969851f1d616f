"""What an error of the API server means for a user, in one line with the cure."""

from cede.kube.errors import (
    ApiError,
    Forbidden,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    Unreadable,
)

SERVER_ERROR = 500


def may_pass(error: ApiError) -> bool:
    """Whether the same request may succeed in a moment."""
    return isinstance(error, Unreachable | TooManyRequests) or error.status >= SERVER_ERROR


def failure_sentence(error: ApiError) -> str:
    """What an error of the API server means for the user, with the cure."""
    match error:
        case ApiError(is_denied=True):
            return f"the request was refused: {error.message}"
        case Unreachable():
            return (
                f"the API server is not reachable: {error.message}; check the network, or name "
                f"another --context"
            )
        case Unauthorized():
            return (
                "the API server does not accept your credentials: log in again, or name another "
                "--context"
            )
        case Forbidden():
            return f"you are not allowed to do this: {error.message}; ask an administrator"
        case NotFound():
            return (
                f"the cluster lacks a kind of object: {error.message}; are Kueue and Cede "
                f"installed there?"
            )
        case Unreadable(key=(_, name)) if name:
            # pydantic writes lines
            reason = " ".join(error.message.split())
            return f"this cede cannot read {reason}: use the version that wrote it"
        case _:
            return f"the API server refused the request: {error}"
