"""The ordinary and the elastic form of the scripts in examples/porting."""

import ast
import difflib
import json
import re
from pathlib import Path

from tests.paths import TREE

PORTING = TREE / "examples" / "porting"
# Rounding differs from size to size, and an optimizer amplifies it. With doubles, a difference
# after all steps is a lost sample.
DOUBLES = "import torch; torch.set_default_dtype(torch.float64)"


def statements(file: Path) -> list[str]:
    """The lines of a script in one standard format, without its docstring."""
    module = ast.parse(file.read_text())
    module.body = module.body[1:]
    return [line for line in ast.unparse(module).splitlines() if line.strip()]


def changed(name: str) -> tuple[int, int]:
    """Statements that are removed and added, from the ordinary script to the elastic one."""
    before = statements(PORTING / f"{name}_before.py")
    after = statements(PORTING / f"{name}.py")
    lines = [
        line
        for line in difflib.unified_diff(before, after, n=0)
        if not line.startswith(("---", "+++"))
    ]
    return sum(line.startswith("-") for line in lines), sum(line.startswith("+") for line in lines)


def counted_changes(page: str) -> dict[str, tuple[int, int]]:
    """What the tables of a page of the documentation say about the scripts, by their names."""
    text = (TREE / "docs" / page).read_text()
    rows = re.findall(r"^\| \[(\w+)_before\.py\].*\| (\d+) \| (\d+) \|$", text, re.MULTILINE)
    return {name: (int(removed), int(added)) for name, removed, added in rows}


def write_slow_data(directory: Path) -> None:
    """The data, beside where the script will be. Reading a sample takes 3 ms, so that there is
    time to resize."""
    data = (PORTING / "made_up.py").read_text()
    slow_data, replacements = re.subn(
        r"^( +)(return self\.|values = )",
        r"\1__import__('time').sleep(0.003)\n\1\2",
        data,
        flags=re.MULTILINE,
    )
    assert replacements == 2
    (directory / "made_up.py").write_text(slow_data)


def losses(directory: Path) -> dict[int, float]:
    """By step, from the journal in this folder."""
    lines = [
        json.loads(line)
        for path in directory.glob("steps-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return {line["step"]: line["loss"] for line in lines}
