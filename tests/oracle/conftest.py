"""What the tests that need a Go compiler share."""

import os
import shutil

import pytest

from tests.harness.admission import CrdJudge, Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    need_go()
    return Judge(tmp_path_factory.mktemp("admission"))


@pytest.fixture(scope="session")
def crd_judge(tmp_path_factory: pytest.TempPathFactory) -> CrdJudge:
    need_go()
    return CrdJudge(tmp_path_factory.mktemp("resources"))


def need_go() -> None:
    """Skips where there is no Go compiler, but not in CI."""
    if not shutil.which("go"):
        if os.environ.get("CI") == "true":
            pytest.fail("CI must run this: there is no Go compiler", pytrace=False)
        pytest.skip("there is no Go compiler")
