"""The controllers that `up --with` adds."""

import pytest

from deploy.local.additions import ADDITIONS, parse
from deploy.local.binaries import version
from deploy.local.paths import Failure


def test_names_are_chosen_in_their_order() -> None:
    assert parse("") == []
    assert [addition.name for addition in parse("trainer,jobset")] == ["trainer", "jobset"]


def test_another_name_is_refused() -> None:
    with pytest.raises(Failure, match="ray cannot be added: use jobset or trainer or lws"):
        parse("jobset,ray")


@pytest.mark.parametrize("name", ADDITIONS)
def test_an_image_has_the_version_of_its_module(name: str) -> None:
    addition = ADDITIONS[name]
    assert addition.image.name == f"docker.io/library/{name}:{version(addition.module)[1:]}"
    assert f"COPY {name} /manager" in addition.image.text
