"""The story live in a terminal: who holds which accelerators, and how the job gets on."""

import sys
import time
from collections.abc import Mapping
from typing import TextIO

from deploy.demo.figures import Step

COLORS = {"research": "\033[36m", "vision": "\033[33m"}
CLEAR = "\033[K"
RESET = "\033[0m"
DIM = "\033[2m"
BOLD = "\033[1m"


def bar(by_team: Mapping[str, int], capacity: int, *, color: bool) -> str:
    """`RRRRRRRR`, `RRRRVVVV` or `RR······`: one cell an accelerator, each with its team's
    initial."""
    cells = []
    for team in sorted(by_team):
        text = team[0].upper() * by_team[team]
        cells.append(f"{COLORS.get(team, '')}{text}{RESET}" if color and text else text)
    return "".join(cells) + "·" * max(0, capacity - sum(by_team.values()))


class Screen:
    """On a terminal a line that moves and the story scrolling above; elsewhere a line for each
    change."""

    def __init__(self, capacity: int, out: TextIO = sys.stdout) -> None:
        self.capacity, self.out, self.live = capacity, out, out.isatty()
        self.start = time.monotonic()
        self._shown = ""
        self._drawn = False

    def say(self, text: str) -> None:
        """A sentence of the story."""
        self._wipe()
        stamp = f"{time.monotonic() - self.start:6.1f} s"
        print(
            f"{DIM}{stamp}{RESET}  {BOLD}{text}{RESET}" if self.live else f"{stamp}  {text}",
            file=self.out,
            flush=True,
        )

    def draw(self, by_team: Mapping[str, int], step: Step | None) -> None:
        """The state now; drawn again in place on a terminal, printed on a change of who holds what
        elsewhere."""
        held = (
            ", ".join(f"{team} {n}" for team, n in sorted(by_team.items()) if n)
            or "nobody holds any"
        )
        job = f"step {step.step}  loss {step.loss:.3f}  on {step.size}" if step else "no step yet"
        line = f"  [{bar(by_team, self.capacity, color=self.live)}]  {held:24}"
        if self.live:
            self._wipe()
            print(f"{line}  {job}", file=self.out, end="", flush=True)
            self._drawn = True
        elif line != self._shown:
            print(f"{'':10}{line}  {job}", file=self.out, flush=True)
            self._shown = line

    def _wipe(self) -> None:
        if self._drawn:
            print(f"\r{CLEAR}", file=self.out, end="")
            self._drawn = False
