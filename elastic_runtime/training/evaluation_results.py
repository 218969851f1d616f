"""The results of the evaluations of one state: a rank that begins one again later is given them."""

from elastic_runtime.state.state_tree import pack, unpack
from elastic_runtime.training.evaluation_sums import Sums

Number = tuple[int, bool, int]
"""Of an evaluation: committed steps; whether a step is in flight; how many came before, there."""


class EvaluationResults:
    """Those of the newest state that was evaluated."""

    def __init__(self) -> None:
        self._sums: dict[Number, Sums] = {}

    def add(self, number: Number, sums: Sums) -> None:
        step = number[0]
        self._sums = {other: old for other, old in self._sums.items() if other[0] == step}
        self._sums[number] = sums.copy()

    def get(self, number: Number) -> Sums | None:
        """A copy: the script may change what it is given."""
        sums = self._sums.get(number)
        return sums.copy() if sums is not None else None

    def numbers(self) -> list[Number]:
        return sorted(self._sums)

    def pack(self) -> bytes:
        """All of them; empty if there are none."""
        plain = [[*number, sums.as_plain_data()] for number, sums in self._sums.items()]
        return pack(plain) if plain else b""

    def update(self, step: int, packed: bytes) -> None:
        """Add those that another rank packed, if they are of this step and not known here."""
        for *number, sums in unpack(packed) if packed else []:
            key = (number[0], number[1], number[2])
            if number[0] == step and key not in self._sums:
                self.add(key, Sums(sums))
