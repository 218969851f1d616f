"""PURE. How many requests are answered at a time, so that nobody's requests keep those of others
waiting."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Full(Exception):
    """Whose requests are too many, and what to do."""


class Places:
    """`of_all` at a time, `of_person` of them for each. `what` and `cure` are for the person."""

    def __init__(self, of_all: int, of_person: int, what: str, cure: str) -> None:
        self._of_all = of_all
        self._of_person = of_person
        self._what = what
        self._cure = cure
        self._taken = Counter[str]()

    @contextmanager
    def take(self, person: str) -> Iterator[None]:
        """A place while the context lasts. Raises Full."""
        if self._taken[person] >= self._of_person:
            raise Full(f"{self._of_person} of your {self._what}: {self._cure}")
        if self._taken.total() >= self._of_all:
            raise Full(f"{self._of_all} {self._what}: {self._cure}")
        self._taken[person] += 1
        try:
            yield
        finally:
            self._taken[person] -= 1
            # nobody is remembered who has no place
            self._taken += Counter()
