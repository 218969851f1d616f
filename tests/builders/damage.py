"""Checkpoints that are not what was written any more."""

import json
import os
from pathlib import Path

from elastic_runtime.checkpointing.save_format import MANIFEST, VERSION, part_name

PART = part_name(0)


def truncate(checkpoint: Path) -> None:
    os.truncate(checkpoint / PART, 100)


def flip_a_bit(checkpoint: Path) -> None:
    content = bytearray((checkpoint / PART).read_bytes())
    content[len(content) // 2] ^= 1
    (checkpoint / PART).write_bytes(content)


def delete_the_part(checkpoint: Path) -> None:
    (checkpoint / PART).unlink()


def delete_the_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).unlink()


def tear_the_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).write_bytes((checkpoint / MANIFEST).read_bytes()[:20])


def empty_the_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).write_text(json.dumps({"step": 2, "files": {}}))


def write_another_manifest(checkpoint: Path) -> None:
    (checkpoint / MANIFEST).write_text(json.dumps([{"step": 2, "files": []}]))


def change_a_digit(checkpoint: Path) -> None:
    """Of the offset of the first piece: what is there instead has the right size."""
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    manifest["pieces"][0]["begin"] += 64
    (checkpoint / MANIFEST).write_text(json.dumps(manifest))


def change_version(checkpoint: Path) -> None:
    manifest = json.loads((checkpoint / MANIFEST).read_text())
    (checkpoint / MANIFEST).write_text(json.dumps(manifest | {"version": VERSION + 1}))


DAMAGES = [
    truncate,
    flip_a_bit,
    delete_the_part,
    delete_the_manifest,
    tear_the_manifest,
    empty_the_manifest,
    write_another_manifest,
    change_a_digit,
]
