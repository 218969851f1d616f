"""Steps that a cluster may refuse one by one, and what became of them."""

from collections.abc import Awaitable, Callable

from cede.api.objects import Json, Key, Kind
from cede.kube.client import Client
from cede.kube.errors import ApiError, NotFound

Outcome = tuple[list[str], list[str]]
"""(what was done, what failed), a sentence each."""
Tell = Callable[[str], None]
"""Shows a sentence while the command runs."""


class Steps:
    """Runs one step after the other. It skips objects that do not exist, and notes failures."""

    def __init__(self, client: Client, tell: Tell) -> None:
        self._client = client
        self._tell = tell
        self._told = ""
        self.done = list[str]()
        self.failed = list[str]()

    async def patch(self, kind: Kind, key: Key, body: Json, result: str) -> None:
        await self.run(self._client.patch(kind, key, body), f"{kind.kind} {key[1]}", result)

    async def run(self, step: Awaitable[object], subject: str, result: str) -> None:
        """Notes `result` when the step succeeds, or its error under the name `subject`."""
        try:
            await step
        except NotFound:
            return
        except ApiError as error:
            self.failed.append(f"{subject}: {error}")
        else:
            self.done.append(result)

    def tell_once(self, sentence: str) -> None:
        """Not again when it is the same as before."""
        if sentence != self._told:
            self._tell(sentence)
        self._told = sentence

    @property
    def outcome(self) -> Outcome:
        return self.done, self.failed
