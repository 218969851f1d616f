"""What the models of our custom resources share."""

import pytest
from pydantic import BaseModel

from cede.api.crd_schema import Quantity
from cede.api.structural_schema import structural


class Model(BaseModel):
    cpu: Quantity = "0"


def test_a_quantity_is_an_integer_or_text_for_the_server() -> None:
    schema = structural(Model.model_json_schema(), kind="Model")["properties"]["cpu"]
    assert schema["x-kubernetes-int-or-string"] is True


@pytest.mark.parametrize(("written", "parsed"), [(4, "4"), ("500m", "500m")])
def test_a_quantity_is_text_once_it_is_parsed(written: int | str, parsed: str) -> None:
    assert Model.model_validate({"cpu": written}).cpu == parsed
