"""Saves on every pod's own disk: quicker than the shared ones and more often; good for as long as
the pods are.

Each rank writes its pieces into its own pod's directory, and nobody waits for anybody. When no
process with a state is left but the pods
are (a script that failed everywhere, nodes that started again), what lies there is brought together
at the leading rank. A pod that was
deleted takes its part along: then the shared directory has the newest save.
"""

import logging
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from elastic_runtime.checkpointing import direct_io, restore, save_format
from elastic_runtime.checkpointing.direct_io import Desk
from elastic_runtime.checkpointing.partition import Piece, Writer, owned
from elastic_runtime.checkpointing.save_format import said_of, step_of
from elastic_runtime.checkpointing.staging import Stage
from elastic_runtime.distributed.group import Group, all_gather_object

log = logging.getLogger(__name__)
# the newest may not be whole yet on every pod, nor the one before it on a slow one
KEEP = 3
# bytes
CHUNK = 64 << 20
COLLECTED = "collected"
ID = "id"
# step, generation and its store's port, ranks
NAME = re.compile(r"step-\d{9,}\.[^.]+\.\d+")
# folder, which rank's, bytes of its file, bytes of what it said of it
Part = tuple[str, int, int, int]
# the rank that has a part, and the same bytes
Source = tuple[int, int, int]


class LocalSaves:
    """`every`: so many steps. The saves of each job lie apart, by an `id` that the job's `shared`
    directory keeps."""

    def __init__(
        self, directory: Path, shared: Path, every: int, said: Callable[..., None]
    ) -> None:
        self._root = directory
        self._shared = shared
        self.every = every
        self._said = said
        self._id = ""
        self._stage, self._desk = Stage(), Desk()

    @property
    def directory(self) -> Path:
        return self._root / self._id

    def due(self, step: int) -> bool:
        """Asked of the leading rank: whether the state after `step` is to be saved. Not while it
        still writes the last one."""
        return step % self.every == 0 and not self._desk.busy

    def soon(
        self, step: int, state: Mapping[str, Any], form: Mapping[str, Any], place: Writer
    ) -> None:
        """This rank's pieces are copied now and written in the background; a rank that still writes
        its last ones leaves these out."""
        if self._desk.busy:
            return
        pieces = self._stage.copy(owned(state, place.rank, place.world, place.shards))
        self._desk.start(self._write, step, pieces, form, place)

    def settle(self) -> None:
        """What this rank was writing is over."""
        self._desk.settle()

    def _write(
        self, step: int, pieces: Sequence[Piece], form: Mapping[str, Any], place: Writer
    ) -> None:
        # as NAME has it
        name = f"{save_format.folder(step)}.{place.name}.{place.world}"
        try:
            self._id = self._id or (self._shared / ID).read_text()
            folder = self.directory / name
            save_format.write_part(
                folder,
                place.rank,
                pieces,
                save_format.items(form) if form else {},
                self._desk,
                place.is_aborted,
            )
            for changed in (folder, self.directory):
                save_format.sync_directory(changed)
            for old in [path for path in self._folders() if step_of(path.name) <= step][KEEP:]:
                shutil.rmtree(old, ignore_errors=True)
        except Exception as error:
            # training goes on, and the status says what is wrong
            log.exception("local save failed")
            # it is not said to be there, so it counts for nothing: it takes room only
            with suppress(OSError):
                (self.directory / name / save_format.part_name(place.rank)).unlink()
            self._said(
                message=f"saving step {step} to {self.directory}, this pod's own, failed: {error}"
            )

    def _folders(self) -> list[Path]:
        """Newest first."""
        return sorted(
            (
                path
                for path in self.directory.glob("step-*")
                if NAME.fullmatch(path.name) and path.is_dir()
            ),
            reverse=True,
        )

    def collect(self, group: Group | None, beyond: int) -> save_format.Saved | None:
        """By every rank. The leading one's: a whole save of a step after its `beyond`, newest
        first; None if there is none.

        It lies in `directory/collected`, for the leading rank to load and to `forget`. Saves of
        later steps are gone: the job begins before
        them. Raises RuntimeError if a rank is lost.
        """
        rank = group.rank if group else 0
        self._id = all_gather_object(group, self._new_id() if rank == 0 else "")[0]
        self.forget()
        said = all_gather_object(group, [beyond, list(self._parts())])
        step = said[0][0]
        saved = None
        for folder, parts in complete([of for _, of in said], step):
            mine = [part for part, (source, *_) in parts.items() if source == rank]
            if all(all_gather_object(group, all(self._is_whole(folder, part) for part in mine))):
                saved = self._bring(group, rank, folder, parts)
                if all_gather_object(group, rank > 0 or saved is not None)[0]:
                    step = step_of(folder)
                    break
            log.warning(
                (
                    "local save passed over: a part of it is not what was written, or there is no "
                    "room for it"
                ),
                extra={"save": folder},
            )
        for later in [path for path in self._folders() if step_of(path.name) > step]:
            shutil.rmtree(later, ignore_errors=True)
        return saved

    def _new_id(self) -> str:
        """The job's, made if there is none; empty where the shared directory does not take it, and
        then there are no local saves."""
        path = self._shared / ID
        with suppress(OSError):
            if not path.exists():
                self._shared.mkdir(parents=True, exist_ok=True)
                save_format.write_durably(path, secrets.token_hex(8).encode())
            return path.read_text()
        return ""

    def forget(self) -> None:
        """What was brought together here is gone."""
        shutil.rmtree(self.directory / COLLECTED, ignore_errors=True)

    def _parts(self) -> Iterator[Part]:
        for folder in self._folders() if self._id else []:
            for said in folder.glob("__*_0.distcp.said"):
                path = said.with_suffix("")
                with suppress(OSError, ValueError):
                    yield (
                        folder.name,
                        save_format.rank_of(path),
                        path.stat().st_size,
                        said.stat().st_size,
                    )

    def _is_whole(self, folder: str, rank: int) -> bool:
        path = self.directory / folder / save_format.part_name(rank)
        with suppress(*restore.HARM):
            said = save_format.unseal(said_of(path).read_bytes())
            return bool(
                said["version"] == save_format.VERSION
                and said["checksum"] == direct_io.read(path, [])
            )
        return False

    def _bring(
        self, group: Group | None, rank: int, folder: str, parts: Mapping[int, Source]
    ) -> save_format.Saved | None:
        """The leading rank's: the save, if every part has come."""
        draft = self.directory / COLLECTED / f".{folder}"
        failed = list[OSError]()
        if rank == 0:
            with noted(failed):
                draft.mkdir(parents=True)
        for part, (source, *sizes) in sorted(parts.items()):
            path = self.directory / folder / save_format.part_name(part)
            for file, size in zip((path, said_of(path)), sizes, strict=True):
                if source == rank == 0 and not failed:
                    with noted(failed):
                        shutil.copyfile(file, draft / file.name)
                elif group and source == rank > 0:
                    _send(group, file, size)
                elif group and source > rank == 0:
                    _receive(group, source, draft / file.name, size, failed)
        if rank or failed:
            return None
        try:
            return save_format.conclude(draft.parent, draft, step_of(folder), len(parts))
        except restore.HARM as error:
            log.warning(
                "a local save could not be brought together",
                extra={"save": folder, "reason": str(error)},
            )
            return None


@contextmanager
def noted(failed: list[OSError]) -> Iterator[None]:
    """What goes wrong here is kept in `failed`: the others of the job must not wait for one who
    left."""
    try:
        yield
    except OSError as error:
        failed.append(error)


def complete(
    said: Sequence[Sequence[Sequence[Any]]], beyond: int
) -> list[tuple[str, dict[int, Source]]]:
    """The saves of steps after `beyond` of which every part is with somebody, newest first: by
    folder, for each part its source.

    `said`: by rank, (folder, part, bytes of its file, bytes of what it said of it). The leading
    rank's own part is taken before another's.
    """
    found: dict[str, dict[int, Source]] = {}
    for rank, parts in enumerate(said):
        for folder, part, size, said_size in parts:
            found.setdefault(folder, {}).setdefault(part, (rank, size, said_size))
    whole = []
    for folder, sources in found.items():
        if step_of(folder) > beyond and sources.keys() == set(range(int(folder.rsplit(".", 1)[1]))):
            whole.append((folder, sources))
    return sorted(whole, reverse=True)


def _send(group: Group, file: Path, size: int) -> None:
    """`size` bytes, whatever becomes of the file meanwhile: checksums show it."""
    with ExitStack() as stack:
        failed: list[OSError] = []
        with noted(failed):
            opened = stack.enter_context(open(file, "rb"))
        for begin in range(0, size, CHUNK):
            chunk = bytearray(min(CHUNK, size - begin))
            with noted(failed):
                if not failed:
                    opened.readinto(chunk)
            group.send([torch.frombuffer(chunk, dtype=torch.uint8)], 0)


def _receive(group: Group, source: int, file: Path, size: int, failed: list[OSError]) -> None:
    """All of it, and into the file as long as nothing `failed`."""
    with ExitStack() as stack:
        with noted(failed):
            opened = stack.enter_context(open(file, "wb")) if not failed else None
        for begin in range(0, size, CHUNK):
            chunk = bytearray(min(CHUNK, size - begin))
            group.receive([torch.frombuffer(chunk, dtype=torch.uint8)], source)
            with noted(failed):
                if opened and not failed:
                    opened.write(chunk)
