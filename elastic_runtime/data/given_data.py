"""What a script gives its session as data: a DataLoader, a dataset, or a function of streams."""

from collections.abc import Iterator
from typing import Any, TypeGuard

from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler

from elastic_runtime.data.map_dataset import Indexed
from elastic_runtime.data.streams import OpenStream

Data = Indexed | DataLoader[Any] | OpenStream
NO_INDEX = "an IterableDataset, which has no samples by index"
OPENS_STREAMS = "a function that opens streams"
# What a DataLoader does itself, and the session does in its place.
ITERATION = ("__iter__", "_get_iterator")
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
        yield "samples and data are both given: leave samples out"
    if isinstance(data, IterableDataset):
        yield f"data is {NO_INDEX}: give data {OPENS_STREAMS}"
    if isinstance(data, DataLoader):
        yield from loader_mistakes("data", data, f"give data {OPENS_STREAMS}")
        if size is not None and data.batch_size not in (None, size):
            yield (
                f"micro_batch_size is {size}, and the batch_size of data {data.batch_size}: leave "
                "micro_batch_size out"
            )


def loader_mistakes(name: str, loader: "DataLoader[Any]", cure: str) -> Iterator[str]:
    """What a session cannot take over. `cure`: for samples that have no index."""
    kind = type(loader)
    if any(getattr(kind, own) is not getattr(DataLoader, own) for own in ITERATION):
        yield (
            f"{name} is a {kind.__name__}, whose own way to iterate the session would not use: "
            "give a torch.utils.data.DataLoader"
        )
    if isinstance(loader.dataset, IterableDataset):
        yield f"{name} has {NO_INDEX}: {cure}"
    elif not takes_every_sample_once(loader):
        yield (
            f"{name} has a {type(loader.sampler).__name__} of its own, but the session decides on "
            "the order, and takes every sample once in an epoch: leave the sampler out, and give "
            "a torch.utils.data.Subset if only some samples are wanted"
        )
    elif loader.batch_size is None:
        yield f"{name} has a batch_sampler or no batch_size: give it batch_size"
    if loader.worker_init_fn is not None:
        yield (
            f"{name} has a worker_init_fn, which the session would not call: leave it out, and do "
            "in the dataset what it does"
        )
    if loader.generator is not None or getattr(loader.sampler, "generator", None) is not None:
        yield (
            f"{name} has a generator, but the session's seed decides on order and random draws: "
            "leave the generator out, and give seed"
        )


def takes_every_sample_once(loader: "DataLoader[Any]") -> bool:
    """Whether an epoch of the loader has the samples of an epoch of a session, in any order."""
    sampler: Any = loader.sampler
    dataset: Any = loader.dataset
    if type(sampler) not in (RandomSampler, SequentialSampler):
        return False
    # A dataset without a length is refused by the loader of the session.
    has_own_number = hasattr(dataset, "__len__") and len(sampler) != len(dataset)
    return not (has_own_number or getattr(sampler, "replacement", False))


def loader_options(loader: "DataLoader[Any]") -> dict[str, Any]:
    """For `session.loader`, which decides on order and randomness itself."""
    options = {name: getattr(loader, name) for name in OPTIONS}
    if loader.num_workers:
        options["prefetch_factor"] = loader.prefetch_factor
    return options
