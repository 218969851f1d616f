"""The scripts of docs/transformers.md run, and differ in few lines."""

import difflib
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="run make test-integrations")

import transformers
from transformers import LlamaForCausalLM, TrainingArguments

from elastic_runtime.integrations.transformers.arguments import REFUSED, TESTED_VERSION
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
    """In one process, because importing transformers takes long."""
    before, after = (block.text for block in blocks_of(PAGE, "python"))
    moves = "import os\nos.mkdir('elastic')\nos.chdir('elastic')\n"
    (tmp_path / "train.py").write_text(before + moves + after)
    env = os.environ | {"PYTHONPATH": str(TREE), "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=env, check=True)
    for directory in (tmp_path, tmp_path / "elastic"):
        assert LlamaForCausalLM.from_pretrained(directory / "final").config.hidden_size == 32
        assert LlamaForCausalLM.from_pretrained(directory / "out" / "checkpoint-2")


def test_the_page_and_the_lock_name_the_version_that_is_tested() -> None:
    assert transformers.__version__ == TESTED_VERSION
    assert f"transformers {TESTED_VERSION}" in (TREE / PAGE).read_text()
    lock = (TREE / "deploy" / "locks" / "integrations.txt").read_text()
    assert f"\ntransformers=={TESTED_VERSION} \\\n" in lock


def test_what_is_refused_is_an_argument_with_its_default() -> None:
    """A new version of transformers may have renamed it, or may have another default."""
    known = {field.name: field.default for field in fields(TrainingArguments)}
    assert not REFUSED.keys() - known.keys()
    others = {
        name: known[name] for name, (accepted, _) in REFUSED.items() if known[name] not in accepted
    }
    assert not others
