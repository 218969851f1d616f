"""What is installed beside the frameworks has licences that are allowed."""

from importlib.metadata import distributions

import pytest

from deploy import licences

pytest.importorskip("transformers", reason="run make test-integrations")


def test_every_package_of_this_environment_has_a_licence_that_is_allowed() -> None:
    names = {distribution.name for distribution in distributions()}
    assert not licences.refused(name for name in names if not name.startswith(licences.NVIDIA))
