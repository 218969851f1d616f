"""What we hear of our own writes: telling it from news spares every write a pass of its own."""

from cede.api.objects import Key

ALL: Key = ("", "")


class Echoes:
    """One per kind that is written and watched. An echo may come after the write's answer, or
    before it."""

    def __init__(self) -> None:
        # the version that our last write of this object made
        self._written: dict[Key, str] = {}
        # since the last `forget`
        self._heard: dict[Key, str] = {}

    def wrote(self, key: Key, version: str) -> None:
        self._written[key] = version

    def is_news(self, key: Key, version: str) -> bool:
        """Whether hearing of this version is more than hearing ourselves; `ALL` is the whole kind,
        listed anew."""
        self._heard[key] = version
        return self._written.get(key) != version

    def gone(self, key: Key) -> None:
        """The object is deleted."""
        self._written.pop(key, None)
        self._heard[key] = ""

    def forget(self) -> None:
        """From here on."""
        self._heard.clear()

    @property
    def only(self) -> bool:
        """Whether nothing but our own writes was heard since: those that came before their answer
        were taken for news."""
        return all(self._written.get(key) == version for key, version in self._heard.items())
