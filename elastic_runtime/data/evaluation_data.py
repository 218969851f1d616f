"""The samples of an evaluation, in micro-batches that are the same at every size of the job."""

from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader, default_collate

from elastic_runtime import evaluation_checks
from elastic_runtime.data.map_dataset import Loader, RequestDataset
from elastic_runtime.mistake import Mistake


class EvaluationData:
    """Micro-batch i has samples i * `size` to (i + 1) * `size`, in the order of the dataset.

    `data`: how many samples, of which the script gets the indices; or a dataset, of which it gets
    the samples. Raises Mistake for anything else.
    """

    def __init__(
        self, data: Any, size: int, collate_fn: Callable[[list[Any]], Any] | None = None
    ) -> None:
        is_loader = isinstance(data, DataLoader | Loader)
        if message := "; ".join(evaluation_checks.data_mistakes(data, is_loader)):
            raise Mistake(message)
        self.size = int(size)
        self._dataset: RequestDataset | None = None
        if hasattr(data, "__len__"):
            self._dataset = RequestDataset(data, collate_fn or default_collate)
            self.samples = len(data)
        else:
            self.samples = int(data)

    @property
    def micro_batches(self) -> int:
        return -(-self.samples // self.size)

    def fetch(self, micro_batch: int) -> Any:
        """Its samples, collated; or their indices."""
        first = micro_batch * self.size
        indices = list(range(first, min(first + self.size, self.samples)))
        if not self._dataset:
            return indices
        return self._dataset.collate(self._dataset.fetch(indices))
