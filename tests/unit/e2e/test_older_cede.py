"""An older version is built without pulling an image."""

from deploy.local import images
from tests.harness.older_cede import from_local_base


def test_an_older_image_is_built_from_the_base_of_this_machine() -> None:
    older = "FROM python:3.11-slim AS wheel\nFROM python:3.11-slim AS training\n"
    base = images.BASE
    assert from_local_base(older) == f"FROM {base} AS wheel\nFROM {base} AS training\n"
    present = "ARG BASE\nFROM ${BASE} AS base\nFROM base AS training\n"
    assert from_local_base(present) == present
