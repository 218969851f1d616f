"""Gathers tensors of which every rank has another number of rows."""

import torch

from elastic_runtime.distributed.group import Group


def all_gather_rows(group: Group, tensor: torch.Tensor) -> torch.Tensor:
    """The rows of all ranks, by rank: (rows of all ranks, ...).

    They have one type and shape. Raises PeerLost as every collective.
    """
    counts = [int(count) for count in group.all_gather(torch.tensor([len(tensor)]))]
    row = tensor.shape[1:]
    # (rows of the rank with the most, bytes of a row): not every backend knows every type.
    padded = tensor.new_zeros(max(counts), row.numel() * tensor.itemsize, dtype=torch.uint8)
    if not padded.numel():
        return tensor.new_zeros(sum(counts), *row)
    flat = tensor.detach().reshape(len(tensor), row.numel()).contiguous()
    padded[: len(tensor)] = flat.view(torch.uint8)
    parts = zip(group.all_gather(padded), counts, strict=True)
    gathered = torch.cat([part[:count] for part, count in parts])
    return gathered.view(tensor.dtype).view(sum(counts), *row)
