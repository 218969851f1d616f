"""PURE. Keeps a fault in one part of a plan from the other parts."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
NEW_CESSIONS = "new Cessions"
PREEMPTORS = "the preemptors"


@dataclass(frozen=True, slots=True)
class Fault:
    """A part of a plan that could not be made."""

    # what could not be planned, such as "Cession claim-1"
    subject: str
    # the exception, and where it was raised
    reason: str

    @property
    def concerns_all_claims(self) -> bool:
        """Whether nothing is taken back for anybody."""
        return self.subject in (NEW_CESSIONS, PREEMPTORS)


class Faults:
    """The faults of one pass."""

    def __init__(self) -> None:
        self.all = list[Fault]()

    def attempt(
        self, subject: str, otherwise: T, part: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What `part` returns; `otherwise` if it raises, which becomes a fault."""
        try:
            return part(*args, **kwargs)
        # whatever is wrong with one object: the others must go on
        except Exception as error:  # noqa: BLE001
            self.all.append(Fault(subject, describe(error)))
            return otherwise

    def attempt_all(
        self, subject: str, part: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[T, ...]:
        """All that `part` yields; nothing if it raises."""
        return self.attempt(subject, (), lambda: tuple(part(*args, **kwargs)))


def describe(error: Exception) -> str:
    """The exception in one line, with the place where it was raised."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace else None
    place = f" in {code.co_name}" if code else ""
    return f"{type(error).__name__}{place}: {error}"
