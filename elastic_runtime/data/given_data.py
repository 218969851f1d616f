"""What a script gives its session as data: a DataLoader, a dataset, or a function of streams."""

from collections.abc import Iterator
from typing import Any, TypeGuard

from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from elastic_runtime.data.map_dataset import Indexed
from elastic_runtime.data.streams import OpenStream

Data = Indexed | DataLoader[Any] | OpenStream
# Options of a DataLoader that a session takes over as they are.
OPTIONS = ("num_workers", "collate_fn", "pin_memory", "timeout", "multiprocessing_context")


def opens_streams(data: Indexed | OpenStream) -> TypeGuard[OpenStream]:
    """Whether it is a function, or a class, of streams. A dataset may be callable too."""
    return isinstance(data, type) or (callable(data) and not hasattr(data, "__getitem__"))


def micro_batch_size(data: Any, given: int | None) -> int:
    """Samples of a micro-batch: as `given`, or a batch of the DataLoader, or 1."""
    if given is None and isinstance(data, DataLoader):
        return data.batch_size or 1
    return 1 if given is None else given


def mistakes(data: Any, samples: int | None, size: int | None) -> Iterator[str]:
    """In the session's arguments `data`, `samples` and `micro_batch_size`."""
    if data is None:
        return
    if samples is not None:
        yield "samples and data are both given: leave samples out, the data has a length"
    if isinstance(data, DataLoader):
        yield from loader_mistakes("data", data, "give data a function that opens streams")
        if size is not None and data.batch_size not in (None, size):
            yield (
                f"micro_batch_size is {size}, and the batch_size of data {data.batch_size}: leave "
                "micro_batch_size out"
            )


def loader_mistakes(name: str, loader: "DataLoader[Any]", cure: str) -> Iterator[str]:
    """If its samples cannot be dealt out. `cure`: for samples that have no index."""
    if isinstance(loader.dataset, IterableDataset):
        yield f"{name} has an IterableDataset, which has no samples by index: {cure}"
    elif not isinstance(loader.sampler, RandomSampler | SequentialSampler):
        yield (
            f"{name} has a {type(loader.sampler).__name__}, but the session decides on "
            "the order of samples: leave the sampler out"
        )
    elif loader.batch_size is None:
        yield f"{name} has a batch_sampler or no batch_size: give it batch_size"


def loader_options(loader: "DataLoader[Any]") -> dict[str, Any]:
    """For `session.loader`, which decides on order and randomness itself."""
    options = {name: getattr(loader, name) for name in OPTIONS}
    if loader.num_workers:
        options["prefetch_factor"] = loader.prefetch_factor
    return options
