"""Writes the generated records as tar files for WebDataset: `made_up_shards.py FOLDER`."""

import io
import sys
import tarfile
from pathlib import Path

import torch
from made_up import SHARDS, records


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{shard:06d}.tar", "w") as archive:
            for number, (values, means) in enumerate(records(shard)):
                add(archive, f"{number:06d}.values.pth", values)
                add(archive, f"{number:06d}.mean.pth", means)


def add(archive: tarfile.TarFile, name: str, tensor: torch.Tensor) -> None:
    content = io.BytesIO()
    torch.save(tensor, content)
    member = tarfile.TarInfo(name)
    member.size = content.tell()
    content.seek(0)
    archive.addfile(member, content)


write(Path(sys.argv[1]))
