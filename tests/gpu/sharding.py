"""Whether this torch can shard a model whose job changes size."""

import pytest

from elastic_runtime.strategies import fsdp2_internals


def skip_if_refused() -> None:
    """torch may be older than what is supported where a GPU is."""
    try:
        fsdp2_internals.check_torch()
    except RuntimeError as error:
        pytest.skip(str(error))
