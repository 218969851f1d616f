"""The parameters of functions whose annotations cannot be evaluated."""

import sys
from typing import TYPE_CHECKING

import pytest

from elastic_runtime.integrations.signatures import signature

if TYPE_CHECKING:
    from torch import Tensor


@pytest.mark.skipif(
    sys.version_info < (3, 14), reason="a function with such annotations is an error before"
)
def test_annotations_may_name_what_type_checkers_import() -> None:
    def training_step(batch: Tensor, number: int = 0) -> Tensor:
        return batch * number

    class Trainer:
        def __init__(self, model: Tensor, data: Tensor) -> None:
            self.model = model
            self.data = data

    assert [*signature(training_step).parameters] == ["batch", "number"]
    assert signature(Trainer).bind_partial(1, 2).arguments == {"model": 1, "data": 2}


def test_parameters_are_those_of_the_function() -> None:
    def training_step(batch: object, number: int = 0) -> object:
        return batch, number

    assert signature(training_step).parameters["number"].default == 0
