"""Which checkpoints stay."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retention:
    """The newest `keep` stay, and the first of every `keep_every` steps; 0: no more."""

    keep: int = 2
    keep_every: int = 0

    def superseded(self, steps: Sequence[int], best: int | None) -> Iterator[int]:
        """Those of the steps that no longer stay. `best`: the step that stays in any case."""
        first = {self._window(step): step for step in sorted(steps, reverse=True)}
        for step in sorted(steps, reverse=True)[self.keep :]:
            is_first = self._window(step) > 0 and first[self._window(step)] == step
            if step != best and not is_first:
                yield step

    def _window(self, step: int) -> int:
        """From 1, in steps of `keep_every`; 0 before the first."""
        return step // self.keep_every if self.keep_every else 0
