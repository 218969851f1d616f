"""The books of a ledger, as its command prints them."""

import json
import time
from abc import ABC, abstractmethod

from cede.api.objects import Json, unix

CONFIRMED_WITHIN_S = 200
"""A server confirms each kind once a minute, or a watch of it is made again after 150 s."""
TOLERANCE_S = 5.0
RESTART = "the ledger did not run"


class Books(ABC):
    @abstractmethod
    def run(self, *words: str) -> str:
        """What `python -m ledger` prints for these words. Raises AssertionError with its error."""

    def statement(self) -> Json:
        """Of this month."""
        month = time.strftime("%Y-%m", time.gmtime())
        statement: Json = json.loads(self.run("statement", "--month", month, "-o", "json"))
        return statement

    def has(self, moment: float) -> bool:
        """Whether they go so far."""
        return unix(self.statement()["writtenUntil"]) > moment

    def job_seconds(self, job: str, column: str) -> float:
        rows = [row for row in self.statement()["byJob"] if row["job"] == job]
        return sum(float(row[column]) for row in rows) * 3600

    def gap_s(self) -> float:
        """Of all restarts; 0 if there was none."""
        gaps = [gap for gap in self.statement()["gaps"] if gap["reason"] == RESTART]
        return sum(unix(gap["end"]) - unix(gap["begin"]) for gap in gaps)
