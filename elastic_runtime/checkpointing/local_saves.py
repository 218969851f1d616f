"""Checkpoints on every pod's own disk: they are faster and more frequent than the shared ones.

Each rank writes its pieces into its own pod's directory, and no rank waits for another. They serve
a job whose pods exist but no process with a state: a script that failed everywhere, or nodes that
restarted. Then the leading rank collects the parts from all pods. A deleted pod takes its part
along; then the newest checkpoint is in the shared directory.
"""

import logging
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from elastic_runtime.checkpointing import (
    checkpoint_directory,
    direct_io,
    local_parts,
    part_file,
    restore,
    save_format,
)
from elastic_runtime.checkpointing.durable_files import sync_directory, write_durably
from elastic_runtime.checkpointing.hashed_writer import BackgroundWorker
from elastic_runtime.checkpointing.local_parts import LocalPart, PartSource, collect_errors
from elastic_runtime.checkpointing.partition import Piece, Writer, rank_pieces
from elastic_runtime.checkpointing.save_format import Checkpoint, report_path, step_of
from elastic_runtime.checkpointing.staging import StagingBuffer
from elastic_runtime.distributed.group import Group, all_gather_object

log = logging.getLogger(__name__)
# On some pods the newest may not be complete yet, on a slow one not even the one before.
KEEP = 3
COLLECTED_FOLDER = "collected"
JOB_ID_FILE = "id"
# Step, generation and its store's port, ranks.
FOLDER_PATTERN = re.compile(r"step-\d{9,}\.[^.]+\.\d+")


class LocalSaves:
    """Saves to a pod's own disk every `every` steps.

    `disk`: a directory of the pod. Each job has its own folder there, named by an id that the
    job's `shared` directory keeps.
    `report`: called with messages for the job's status.
    """

    def __init__(self, disk: Path, shared: Path, every: int, report: Callable[..., None]) -> None:
        self.every = every
        self.disk = disk
        self._shared = shared
        self._report = report
        self._job_id = ""
        self._staging = StagingBuffer()
        self._worker = BackgroundWorker()

    @property
    def directory(self) -> Path:
        return self.disk / self._job_id

    # --- save -------------------------------------------------------------------------------------

    def is_due(self, step: int) -> bool:
        """Whether the state after `step` is to be saved. For the leading rank.

        It is not while this rank still writes the last one.
        """
        return step % self.every == 0 and not self._worker.is_busy

    def save_in_background(
        self, step: int, state: Mapping[str, Any], skeleton: Mapping[str, Any], writer: Writer
    ) -> None:
        """Copy this rank's pieces now and write them in the background.

        `skeleton`: the state without its tensors' data, on the leading rank; empty on others. A
        rank that still writes the last ones leaves these out.
        """
        if self._worker.is_busy:
            return
        pieces = rank_pieces(state, writer.rank, writer.world, writer.shard_group_size)
        self._worker.start(self._write, step, self._staging.copy(pieces), skeleton, writer)

    def wait(self) -> None:
        """Wait until this rank writes nothing more."""
        self._worker.wait()

    def _write(
        self, step: int, pieces: Sequence[Piece], skeleton: Mapping[str, Any], writer: Writer
    ) -> None:
        # As FOLDER_PATTERN.
        name = f"{save_format.folder_name(step)}.{writer.generation_name}.{writer.world}"
        try:
            self._job_id = self._job_id or (self._shared / JOB_ID_FILE).read_text()
            folder = self.directory / name
            items = part_file.pack_items(skeleton) if skeleton else {}
            part_file.write_part(
                folder, writer.rank, pieces, items, self._worker, writer.is_aborted
            )
            for changed in (folder, self.directory):
                sync_directory(changed)
            up_to_step = [path for path in self._folders() if step_of(path.name) <= step]
            for old in up_to_step[KEEP:]:
                shutil.rmtree(old, ignore_errors=True)
        except Exception as error:
            # Whatever it is: training continues, and the status shows the error.
            log.exception("local save failed")
            # Without its report the file does not count, so it only takes space.
            with suppress(OSError):
                (self.directory / name / save_format.part_name(writer.rank)).unlink()
            self._report(
                save_message=(
                    f"saving step {step} to {self.directory} on this pod's own disk failed: {error}"
                )
            )

    def _folders(self) -> list[Path]:
        """Newest first."""
        folders = (
            path
            for path in self.directory.glob("step-*")
            if FOLDER_PATTERN.fullmatch(path.name) and path.is_dir()
        )
        return sorted(folders, reverse=True)

    # --- collect ----------------------------------------------------------------------------------

    def collect(self, group: Group | None, newer_than: int) -> Checkpoint | None:
        """Bring the newest complete checkpoint of all pods together on the leading rank.

        Every rank calls this. The leading one gets the newest intact checkpoint of a step after its
        `newer_than`, in `directory/collected`; it loads it and calls `discard_collected`. None if
        there is none, and on the other ranks. Local checkpoints of later steps are removed: the job
        resumes before them. Raises PeerLost if a rank is lost.
        """
        rank = group.rank if group else 0
        self._job_id = all_gather_object(group, self._make_job_id() if rank == 0 else "")[0]
        self.discard_collected()
        gathered = all_gather_object(group, [newer_than, list(self._parts())])
        step: int = gathered[0][0]
        checkpoint = None
        parts_by_rank = [parts for _, parts in gathered]
        for folder, sources in local_parts.complete_checkpoints(parts_by_rank, step):
            sent = [part for part, source in sources.items() if source.rank == rank]
            is_intact = all(self._is_intact(folder, part) for part in sent)
            if all(all_gather_object(group, is_intact)):
                checkpoint = self._gather_parts(group, rank, folder, sources)
                if all_gather_object(group, checkpoint is not None)[0]:
                    step = step_of(folder)
                    break
            log.warning(
                "local checkpoint skipped: a part is damaged, or the leading rank cannot store it",
                extra={"checkpoint": folder},
            )
        for later in [path for path in self._folders() if step_of(path.name) > step]:
            shutil.rmtree(later, ignore_errors=True)
        return checkpoint

    def discard_collected(self) -> None:
        shutil.rmtree(self.directory / COLLECTED_FOLDER, ignore_errors=True)

    def _make_job_id(self) -> str:
        """The job's id; a new one if there is none.

        Empty where the shared directory cannot store it; then there are no local checkpoints.
        """
        path = self._shared / JOB_ID_FILE
        with suppress(OSError):
            if not path.exists():
                self._shared.mkdir(parents=True, exist_ok=True)
                write_durably(path, secrets.token_hex(8).encode())
            return path.read_text()
        return ""

    def _parts(self) -> Iterator[LocalPart]:
        """The parts on this pod's disk whose files are durable."""
        if not self._job_id:
            return
        for folder in self._folders():
            for report in folder.glob("__*_0.distcp.report"):
                part = report.with_suffix("")
                with suppress(OSError, ValueError):
                    yield LocalPart(
                        folder.name,
                        save_format.rank_of(part),
                        part.stat().st_size,
                        report.stat().st_size,
                    )

    def _is_intact(self, folder: str, part: int) -> bool:
        path = self.directory / folder / save_format.part_name(part)
        with suppress(*restore.DAMAGE_ERRORS):
            report = save_format.unseal_report(report_path(path).read_bytes())
            return report.version == save_format.VERSION and report.checksum == direct_io.read(
                path, []
            )
        return False

    def _gather_parts(
        self, group: Group | None, rank: int, folder: str, sources: Mapping[int, PartSource]
    ) -> Checkpoint | None:
        """On the leading rank: the checkpoint, if every part has arrived."""
        draft = self.directory / COLLECTED_FOLDER / f".{folder}"
        errors: list[OSError] = []
        if rank == 0:
            with collect_errors(errors):
                draft.mkdir(parents=True)
        for part, source in sorted(sources.items()):
            path = self.directory / folder / save_format.part_name(part)
            files = [(path, source.file_bytes), (report_path(path), source.report_bytes)]
            for file, size in files:
                if rank == 0:
                    _store_file(group, source.rank, file, draft / file.name, size, errors)
                elif group and rank == source.rank:
                    local_parts.send_file(group, file, size)
        if rank or errors:
            return None
        try:
            return checkpoint_directory.publish(draft.parent, draft, step_of(folder), len(sources))
        except restore.DAMAGE_ERRORS as error:
            log.warning(
                "the parts of a local checkpoint cannot be put together",
                extra={"checkpoint": folder, "reason": str(error)},
            )
            return None


def _store_file(
    group: Group | None, source: int, file: Path, target: Path, size: int, errors: list[OSError]
) -> None:
    """On the leading rank: a file of its own disk, or of rank `source`, is in the draft."""
    if source > 0 and group:
        local_parts.receive_file(group, source, target, size, errors)
    elif not errors:
        with collect_errors(errors):
            shutil.copyfile(file, target)
