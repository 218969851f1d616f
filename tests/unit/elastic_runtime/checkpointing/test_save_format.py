"""Names and sealed files of a checkpoint."""

import dataclasses
import json
from pathlib import Path

import pytest

from elastic_runtime.checkpointing import save_format
from elastic_runtime.checkpointing.save_format import (
    VERSION,
    FileEntry,
    Manifest,
    PartReport,
    StoredBytes,
    StoredPiece,
    StoredTensor,
)

PIECES: list[StoredPiece] = [
    StoredTensor("model.w", "__0_0.distcp", 0, 900, (2, 0), (4, 3), (2, 3), "float32", -1),
    StoredBytes("step", "__0_0.distcp", 900, 7),
]
REPORT = PartReport(VERSION, PIECES, "abc", 907)
MANIFEST = Manifest(VERSION, 3, {"__0_0.distcp": FileEntry("abc", 907)}, PIECES)


def test_sealed_files_are_read_as_they_were_written() -> None:
    assert save_format.unseal_report(save_format.seal(REPORT)) == REPORT
    assert save_format.unseal_manifest(save_format.seal(MANIFEST)) == MANIFEST


def test_a_changed_value_breaks_the_seal() -> None:
    fields = json.loads(save_format.seal(REPORT))
    changed = json.dumps(fields | {"bytes": 908}).encode()
    with pytest.raises(ValueError, match="it is not what was written"):
        save_format.unseal_report(changed)


@pytest.mark.parametrize("name", ["../../elsewhere", "/etc/hostname", "a/b", "..", "."])
def test_a_manifest_names_files_of_its_own_folder_only(name: str) -> None:
    """`../../elsewhere-secret` was read into a tensor."""
    foreign = dataclasses.replace(MANIFEST, files={name: FileEntry("abc", 907)})
    with pytest.raises(ValueError, match="no name of a file of the checkpoint"):
        save_format.unseal_manifest(save_format.seal(foreign))


def test_the_manifest_has_the_fields_of_version_4() -> None:
    """A checkpoint that an older image wrote must stay readable."""
    fields = json.loads(save_format.seal(MANIFEST))
    assert fields.pop(save_format.SEAL)
    assert fields == json.loads(json.dumps(dataclasses.asdict(MANIFEST)))
    assert set(fields) == {"version", "step", "files", "pieces"}
    assert fields["files"] == {"__0_0.distcp": {"checksum": "abc", "bytes": 907}}
    assert fields["pieces"][1] == {
        "name": "step",
        "file": "__0_0.distcp",
        "begin": 900,
        "length": 7,
    }


def test_names_give_back_the_step_and_the_rank() -> None:
    assert save_format.step_of(save_format.folder_name(12)) == 12
    assert save_format.step_of("step-000000012.3-5000.2") == 12
    part = Path(save_format.part_name(7))
    for path in (part, save_format.report_path(part), save_format.refusal_path(part)):
        assert save_format.rank_of(path) == 7
