"""Distinguishes our own writes from other changes, so that a write does not cause another pass.

client-go and Kueue call this expectations.
"""

from cede.api.objects import Key

WHOLE_KIND: Key = ("", "")
"""In place of a key: all objects of a kind, which a new list has replaced."""


class Expectations:
    """The versions that our writes made of one kind, and the versions that the watch reported.

    The watch may report a write before or after the API server has answered it.
    """

    def __init__(self) -> None:
        # the versions that our writes of this object made since the last `clear_observed`, and the
        # one before them
        self._written: dict[Key, list[str]] = {}
        # what was reported since the last `clear_observed` and was not known to be our write
        self._observed: dict[Key, list[str]] = {}

    def record_write(self, key: Key, version: str) -> None:
        self._written.setdefault(key, []).append(version)

    def observe(self, key: Key, version: str) -> bool:
        """Notes what the watch reported. Returns False when it is the result of our own write."""
        if version in self._written.get(key, ()):
            return False
        self._observed.setdefault(key, []).append(version)
        return True

    def observe_deletion(self, key: Key) -> None:
        self._written.pop(key, None)
        self._observed.setdefault(key, []).append("")

    def clear_observed(self) -> None:
        """Starts a new period for `only_own_writes`."""
        self._observed.clear()
        self._written = {key: versions[-1:] for key, versions in self._written.items()}

    @property
    def only_own_writes(self) -> bool:
        """Whether everything observed since `clear_observed` was written by us.

        This also recognizes writes that the watch reported before they were answered. A change by
        somebody else counts although we wrote the object afterwards: what we wrote was decided
        before it.
        """
        return all(
            version in self._written.get(key, ())
            for key, versions in self._observed.items()
            for version in versions
        )
