"""Ranks of one group as threads of this process, with real connections."""

import threading
from collections.abc import Callable
from typing import TypeVar

from elastic_runtime.distributed.gloo import open_store
from elastic_runtime.distributed.group import Group

T = TypeVar("T")


def run_ranks(
    world: int, body: Callable[[Group], T], generation: int = 1, shard_group_size: int = 0
) -> list[T]:
    """What `body` returns on each rank, by rank. Raises the exception of the first that failed."""
    store, port = open_store()
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        group = Group(generation, rank, world, shard_group_size)
        try:
            group.connect(f"127.0.0.1:{port}")
            results[rank] = body(group)
        except BaseException as error:
            errors.append(error)
            raise
        finally:
            group.close()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    del store
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(world)]
