"""Whether workers have the same dataset, detected by a few of its samples.

A script that splits or shuffles a `datasets.Dataset` without a seed has another one in every
process. An index then means another sample on every worker.
"""

import hashlib
import sys
from typing import Any

# So many samples, spread over the dataset.
SAMPLES = 16


def compute(dataset: Any) -> int:
    """Of a `datasets.Dataset` with samples, 63 bits, from what it stores: transforms may draw.

    0 of all others, which may read files or draw random numbers for a sample.
    """
    # Only a script that has imported the package can have such a dataset. Scripts also have modules
    # of their own that are called datasets.
    library = sys.modules.get("datasets.arrow_dataset")
    if library is None or not isinstance(dataset, library.Dataset):
        return 0
    size = len(dataset)
    table = dataset.with_format("arrow")[[number * size // SAMPLES for number in range(SAMPLES)]]
    # Images and sounds are structs that have the path of a file, which differs by machine.
    columns = [field.name for field in table.schema if "struct" not in str(field.type)]
    content = repr((size, table.select(columns).to_pylist()))
    return int.from_bytes(hashlib.sha256(content.encode()).digest()[:8], "big") >> 1
