"""Shows the demo in a terminal: what happens, which team has which accelerators, and each step."""

import sys
import time
from collections.abc import Mapping
from typing import TextIO

from deploy.demo.record import Step

COLORS = {"research": "\033[36m", "vision": "\033[33m", "plain": "\033[34m"}
CLEAR = "\033[K"
RESET = "\033[0m"
DIM = "\033[2m"
BOLD = "\033[1m"


def bar(by_team: Mapping[str, int], capacity: int, *, color: bool) -> str:
    """One cell for each accelerator, with the initial of its team: `RRRRVVVV`, `RR······`."""
    cells = []
    for team in sorted(by_team):
        text = team[0].upper() * by_team[team]
        cells.append(f"{COLORS.get(team, '')}{text}{RESET}" if color and text else text)
    return "".join(cells) + "·" * max(0, capacity - sum(by_team.values()))


class Screen:
    """On a terminal, the state is a last line that is redrawn. Elsewhere, each change is a line."""

    def __init__(self, capacity: int, output: TextIO = sys.stdout) -> None:
        self.capacity = capacity
        self.output = output
        self.live = output.isatty()
        self.started = time.monotonic()
        self._last_line = ""
        self._drawn = False

    def report(self, text: str) -> None:
        """Prints a sentence with the time since the start."""
        self._wipe()
        stamp = f"{time.monotonic() - self.started:6.1f} s"
        line = f"{DIM}{stamp}{RESET}  {BOLD}{text}{RESET}" if self.live else f"{stamp}  {text}"
        print(line, file=self.output, flush=True)

    def draw(self, by_team: Mapping[str, int], step: Step | None) -> None:
        """Shows the present state."""
        counts = [f"{team} {count}" for team, count in sorted(by_team.items()) if count]
        holdings = ", ".join(counts) or "no accelerator in use"
        progress = "no step yet"
        if step:
            progress = f"step {step.step}  loss {step.loss:.3f}  on {step.size}"
        line = f"  [{bar(by_team, self.capacity, color=self.live)}]  {holdings:24}"
        if self.live:
            self._wipe()
            print(f"{line}  {progress}", file=self.output, end="", flush=True)
            self._drawn = True
        elif line != self._last_line:
            print(f"{'':10}{line}  {progress}", file=self.output, flush=True)
            self._last_line = line

    def _wipe(self) -> None:
        if self._drawn:
            print(f"\r{CLEAR}", file=self.output, end="")
            self._drawn = False
