"""PURE. What an epoch is to a framework whose loop a session drives."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Epochs:
    """A batch continues across the end of an epoch, so all batches are full, and every sample is
    used once in an epoch. An epoch ends with the step that uses its last sample.

    `samples`: of the dataset. `batch`: samples of a step, at every size of the job.
    """

    samples: int
    batch: int

    def steps(self, epochs: float) -> int:
        """After how many steps so many epochs are used."""
        return math.ceil(epochs * self.samples / self.batch)

    def used(self, step: int) -> float:
        """How many epochs are used after so many steps."""
        return step * self.batch / self.samples

    def ended(self, step: int, every: int = 1) -> int:
        """How many epochs, or groups of `every` epochs, have ended after so many steps."""
        return step * self.batch // (self.samples * every)

    def ends(self, step: int, every: int = 1) -> bool:
        """Whether an epoch, or a group of `every` epochs, ends with this step, counted from 1."""
        return step > 0 and self.ended(step, every) > self.ended(step - 1, every)

    def place(self, step: int) -> int:
        """How many steps come before this one, counted from 0, in its epoch."""
        return step - self.steps(self.ended(step))
