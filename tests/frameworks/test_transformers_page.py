"""The scripts of docs/transformers.md run, and differ in few lines."""

import difflib
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers", reason="run make test-integrations")

from transformers import LlamaForCausalLM, TrainingArguments

from elastic_runtime.integrations.transformers.arguments import REFUSED
from tests.paths import TREE
from tests.unit.docs.pages import blocks_of

pytestmark = pytest.mark.processes
PAGE = "docs/transformers.md"
MAX_CHANGED_LINES = 5


def test_an_elastic_script_differs_in_at_most_five_lines() -> None:
    before, after = (block.text.splitlines() for block in blocks_of(PAGE, "python"))
    changes = list(difflib.ndiff(before, after))
    added = [line for line in changes if line.startswith("+ ") and line.strip() != "+"]
    removed = [line for line in changes if line.startswith("- ")]
    assert 0 < max(len(added), len(removed)) <= MAX_CHANGED_LINES


def test_both_scripts_run_and_write_a_model(tmp_path: Path) -> None:
    [command] = (block.text.split() for block in blocks_of(PAGE, "sh"))
    env = os.environ | {"PYTHONPATH": str(TREE), "PYTHONWARNINGS": "ignore"}
    for number, block in enumerate(blocks_of(PAGE, "python")):
        directory = tmp_path / str(number)
        directory.mkdir()
        (directory / "train.py").write_text(block.text)
        arguments: list[Any] = command[1:] if number else ["train.py"]
        subprocess.run([sys.executable, *arguments], cwd=directory, env=env, check=True)
        assert LlamaForCausalLM.from_pretrained(directory / "final").config.hidden_size == 32
        assert LlamaForCausalLM.from_pretrained(directory / "out" / "checkpoint-2")


def test_what_is_refused_is_an_argument_with_its_default() -> None:
    """A new version of transformers may have renamed it, or may have another default."""
    known = {field.name: field.default for field in fields(TrainingArguments)}
    assert not REFUSED.keys() - known.keys()
    others = {
        name: known[name] for name, (accepted, _) in REFUSED.items() if known[name] not in accepted
    }
    assert not others
