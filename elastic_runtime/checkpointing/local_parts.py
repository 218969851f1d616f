"""Finds complete local checkpoints on the pods' disks; sends their parts to the leading rank."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elastic_runtime.checkpointing.save_format import step_of
from elastic_runtime.distributed.group import Group

CHUNK_BYTES = 64 << 20


class LocalPart(NamedTuple):
    """One rank's file of a local checkpoint, on the disk of the rank's pod."""

    folder: str
    # The rank that wrote it.
    part: int
    file_bytes: int
    report_bytes: int


class PartSource(NamedTuple):
    """The rank that sends a part, and the sizes of its two files."""

    rank: int
    file_bytes: int
    report_bytes: int


def complete_checkpoints(
    parts_by_rank: Sequence[Sequence[Sequence[Any]]], newer_than: int
) -> list[tuple[str, dict[int, PartSource]]]:
    """The local checkpoints of later steps of which every part exists, newest first.

    Each is a folder's name and the source of each part. `parts_by_rank`: the fields of the
    `LocalPart`s of each rank. If several ranks have a part, the first of them is its source.
    """
    sources_by_folder: dict[str, dict[int, PartSource]] = {}
    for rank, parts in enumerate(parts_by_rank):
        for part in (LocalPart(*fields) for fields in parts):
            sources = sources_by_folder.setdefault(part.folder, {})
            sources.setdefault(part.part, PartSource(rank, part.file_bytes, part.report_bytes))
    complete = [
        (folder, sources)
        for folder, sources in sources_by_folder.items()
        if step_of(folder) > newer_than and sources.keys() == set(range(_world_of(folder)))
    ]
    return sorted(complete, reverse=True)


def _world_of(folder: str) -> int:
    """How many ranks wrote a local checkpoint, by the name of its folder."""
    return int(folder.rsplit(".", 1)[1])


@contextmanager
def collect_errors(errors: list[OSError]) -> Iterator[None]:
    """Append an OSError to `errors` instead of raising it.

    A rank that stopped in the middle of a transfer would leave the other ranks waiting.
    """
    try:
        yield
    except OSError as error:
        errors.append(error)


def send_file(group: Group, file: Path, size: int) -> None:
    """Send `size` bytes to rank 0, even if the file cannot be read: its checksum shows that."""
    with ExitStack() as stack:
        errors: list[OSError] = []
        with collect_errors(errors):
            opened = stack.enter_context(open(file, "rb"))
        for begin in range(0, size, CHUNK_BYTES):
            chunk = bytearray(min(CHUNK_BYTES, size - begin))
            with collect_errors(errors):
                if not errors:
                    opened.readinto(chunk)
            group.send([torch.frombuffer(chunk, dtype=torch.uint8)], 0)


def receive_file(group: Group, source: int, file: Path, size: int, errors: list[OSError]) -> None:
    """Receive `size` bytes, and write them to the file for as long as there are no `errors`."""
    with ExitStack() as stack:
        opened = None
        with collect_errors(errors):
            if not errors:
                opened = stack.enter_context(open(file, "wb"))
        for begin in range(0, size, CHUNK_BYTES):
            chunk = bytearray(min(CHUNK_BYTES, size - begin))
            group.receive([torch.frombuffer(chunk, dtype=torch.uint8)], source)
            with collect_errors(errors):
                if opened and not errors:
                    opened.write(chunk)
