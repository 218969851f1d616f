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
        # the version that our last write of this object made
        self._written: dict[Key, str] = {}
        # the newest version reported since the last `clear_observed`
        self._observed: dict[Key, str] = {}

    def record_write(self, key: Key, version: str) -> None:
        self._written[key] = version

    def observe(self, key: Key, version: str) -> bool:
        """Notes what the watch reported. Returns False when it is the result of our own write."""
        self._observed[key] = version
        return self._written.get(key) != version

    def observe_deletion(self, key: Key) -> None:
        self._written.pop(key, None)
        self._observed[key] = ""

    def clear_observed(self) -> None:
        """Starts a new period for `only_own_writes`."""
        self._observed.clear()

    @property
    def only_own_writes(self) -> bool:
        """Whether everything observed since `clear_observed` was written by us.

        This also recognizes writes that the watch reported before they were answered.
        """
        return all(self._written.get(key) == version for key, version in self._observed.items())
