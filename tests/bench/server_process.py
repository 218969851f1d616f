"""A server in a process of its own, so that a benchmark measures the client alone."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def running(serve: Callable[..., None], *arguments: object) -> Iterator[Any]:
    """What `serve(sender, *arguments)` sends once it serves. The process ends with the context."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe()
    process = context.Process(target=serve, args=(sender, *arguments), daemon=True)
    process.start()
    try:
        yield receiver.recv()
    finally:
        process.terminate()
        process.join()
