"""Saves on every pod's own disk: quicker than the shared ones and more often; good for as long as the pods are.

Each rank writes its pieces into its own pod's directory, and nobody waits for anybody. When no process with a state is left but the pods
are (a script that failed everywhere, nodes that started again), what lies there is brought together at the leading rank. A pod that was
deleted takes its part along: then the shared directory has the newest save.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch

from elastic_runtime import checkpoint, files, restore
from elastic_runtime.files import Desk
from elastic_runtime.group import Group
from elastic_runtime.pieces import Place, owned
from elastic_runtime.staging import Stage

log = logging.getLogger(__name__)
KEEP = 3  # the newest may not be whole yet on every pod, nor the one before it on a slow one
CHUNK = 64 << 20  # bytes
COLLECTED = "collected"
Part = tuple[str, int, int, int]  # folder, which rank's, bytes of its file, bytes of what it said of it
Source = tuple[int, int, int]  # the rank that has a part, and the same bytes


class LocalTier:
    """`every`: so many steps."""

    def __init__(self, directory: Path, every: int, said: Callable[..., None]) -> None:
        self.directory, self.every, self._said = directory, every, said
        self._stage, self._desk = Stage(), Desk()
        self._thread = ThreadPoolExecutor(1, "save-locally")
        self._writing: Future[None] | None = None

    def due(self, step: int) -> bool:
        """Asked of the leading rank: whether the state after `step` is to be saved. Not while it still writes the last one."""
        return step % self.every == 0 and not self._busy()

    def soon(self, step: int, state: Mapping[str, Any], form: Mapping[str, Any], place: Place) -> None:
        """This rank's pieces are copied now and written in the background; a rank that still writes its last ones leaves these out."""
        if self._busy():
            return
        folder = self.directory / f"{checkpoint.folder(step)}.{place.name}.{place.world}"  # `complete` reads it
        pieces = self._stage.copy(owned(state, place.rank, place.world, place.shards))

        def write() -> None:
            try:
                checkpoint.write_part(folder, place.rank, pieces, checkpoint.items(form) if form else {}, self._desk, place.is_cut)
                for old in self._folders()[KEEP:]:
                    shutil.rmtree(old, ignore_errors=True)
            except Exception as error:  # training goes on, and the status says what is wrong
                log.exception("local save failed")
                with suppress(OSError):  # it is not said to be there, so it counts for nothing: it takes room only
                    (folder / checkpoint.part_name(place.rank)).unlink()
                self._said(message=f"saving step {step} to {self.directory}, this pod's own, failed: {error}")

        self._writing = self._thread.submit(write)

    def _busy(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _folders(self) -> list[Path]:
        """Newest first."""
        return sorted((path for path in self.directory.glob("step-*") if path.is_dir()), reverse=True)

    def collect(self, group: Group | None, beyond: int) -> checkpoint.Saved | None:
        """By every rank. The leading one's: a whole save of a step after its `beyond`, newest first; None if there is none.

        It lies in `directory/collected`, for the leading rank to load and to `forget`. Raises RuntimeError if a rank is lost.
        """
        self.forget()
        rank = group.rank if group else 0
        said = _all_say(group, [beyond, list(self._parts())])
        for folder, parts in complete([of for _, of in said], said[0][0]):
            mine = [part for part, (source, *_) in parts.items() if source == rank]
            if all(_all_say(group, all(self._is_whole(folder, part) for part in mine))):
                saved = self._bring(group, rank, folder, parts)
                if _all_say(group, rank > 0 or saved is not None)[0]:
                    return saved
            log.warning("local save passed over: a part of it is not what was written, or has no room", extra={"save": folder})
        return None

    def forget(self) -> None:
        """What was brought together here is gone."""
        shutil.rmtree(self.directory / COLLECTED, ignore_errors=True)

    def _parts(self) -> Iterator[Part]:
        for folder in self._folders():
            for said in folder.glob("*.said"):
                path = said.with_suffix("")
                with suppress(OSError):
                    yield folder.name, checkpoint.rank_of(path), path.stat().st_size, said.stat().st_size

    def _is_whole(self, folder: str, rank: int) -> bool:
        path = self.directory / folder / checkpoint.part_name(rank)
        with suppress(OSError, ValueError, LookupError):
            return bool(json.loads(said_of(path).read_bytes())["sha256"] == files.read(path, []))
        return False

    def _bring(self, group: Group | None, rank: int, folder: str, parts: Mapping[int, Source]) -> checkpoint.Saved | None:
        """The leading rank's: the save, if every part has come and is what was written."""
        draft = self.directory / COLLECTED / f".{folder}"
        try:
            if rank == 0:
                draft.mkdir(parents=True)
            failed: OSError | None = None
        except OSError as error:
            failed = error
        for part, (source, size, said_size) in sorted(parts.items()):
            path = self.directory / folder / checkpoint.part_name(part)
            for file, bytes_ in ((path, size), (said_of(path), said_size)):
                try:
                    if source == 0 == rank and not failed:
                        os.link(file, draft / file.name)
                    elif group and source == rank:
                        _send(group, file, bytes_)
                    elif group and rank == 0:
                        _receive(group, source, draft / file.name, bytes_, keep=not failed)
                except OSError as error:
                    failed = error
        if rank:
            return None
        try:
            if failed:
                raise failed
            concluded = checkpoint.conclude(draft.parent, draft, int(folder.split(".")[0].removeprefix("step-")))
            return restore.verify(concluded.path)
        except OSError as error:
            log.warning("a local save could not be brought together", extra={"save": folder, "reason": str(error)})
            return None


def complete(said: Sequence[Sequence[Sequence[Any]]], beyond: int) -> list[tuple[str, dict[int, Source]]]:
    """The saves of steps after `beyond` of which every part is with somebody, newest first: by folder, for each part its source.

    `said`: by rank, (folder, part, bytes of its file, bytes of what it said of it). The leading rank's own part is taken before another's.
    """
    found: dict[str, dict[int, Source]] = {}
    for rank, parts in enumerate(said):
        for folder, part, size, said_size in parts:
            found.setdefault(folder, {}).setdefault(part, (rank, size, said_size))
    whole = []
    for folder, sources in found.items():
        step, _, world = folder.removeprefix("step-").split(".")
        if int(step) > beyond and sources.keys() == set(range(int(world))):
            whole.append((folder, sources))
    return sorted(whole, reverse=True)


def said_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.said")


def _all_say(group: Group | None, word: Any) -> list[Any]:
    return group.all_gather_said(word) if group else [word]


def _send(group: Group, file: Path, size: int) -> None:
    """`size` bytes, whatever becomes of the file meanwhile: its checksum shows it."""
    with open(file, "rb") as opened:
        for begin in range(0, size, CHUNK):
            chunk = bytearray(min(CHUNK, size - begin))
            opened.readinto(chunk)
            group.send([torch.frombuffer(chunk, dtype=torch.uint8)], 0)


def _receive(group: Group, source: int, file: Path, size: int, *, keep: bool) -> None:
    """Raises OSError when all has come and could not be written."""
    failed: OSError | None = None
    with ExitStack() as stack:
        opened = stack.enter_context(open(file, "wb")) if keep else None
        for begin in range(0, size, CHUNK):
            chunk = bytearray(min(CHUNK, size - begin))
            group.receive([torch.frombuffer(chunk, dtype=torch.uint8)], source)
            try:
                if opened and not failed:
                    opened.write(chunk)
            except OSError as error:
                failed = error
    if failed:
        raise failed
