"""The metadata file that torch.distributed.checkpoint needs to load a checkpoint."""

import math
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from elastic_runtime.checkpointing.save_format import StoredPiece, StoredTensor


def dcp_metadata(pieces: Sequence[StoredPiece]) -> bytes:
    """The bytes that torch's FileSystemWriter would write.

    Raises OSError if the pieces of a tensor are not all of it.
    """
    # Imports all of torch.distributed.checkpoint, so only where it is needed.
    from torch.distributed.checkpoint import metadata as dcp
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    entries: dict[str, Any] = {}
    storage: dict[Any, Any] = {}
    for piece in pieces:
        offsets = None
        if isinstance(piece, StoredTensor):
            offsets = torch.Size(piece.offsets)
            properties = dcp.TensorProperties(dtype=getattr(torch, piece.dtype))
            entry = entries.setdefault(
                piece.name, dcp.TensorStorageMetadata(properties, torch.Size(piece.shape), [])
            )
            entry.chunks.append(dcp.ChunkStorageMetadata(offsets, torch.Size(piece.rows)))
        else:
            entries[piece.name] = dcp.BytesStorageMetadata()
        index = dcp.MetadataIndex(piece.name, offsets)
        storage[index] = _StorageInfo(piece.file, piece.begin, piece.length)
    _check_complete(piece for piece in pieces if isinstance(piece, StoredTensor))
    return pickle.dumps(dcp.Metadata(entries, storage_data=storage))


def _check_complete(pieces: Iterable[StoredTensor]) -> None:
    sizes: dict[str, int] = {}
    written: dict[str, int] = {}
    for piece in pieces:
        sizes[piece.name] = math.prod(piece.shape)
        written[piece.name] = written.get(piece.name, 0) + math.prod(piece.rows)
    for name, size in sizes.items():
        if written[name] != size:
            raise OSError(f"{written[name]} of the {size} elements of {name} were written")
