"""What the tests that need a Go compiler share."""

import os
import shutil

import pytest

from tests.harness.admission import Judge


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    if not shutil.which("go"):
        if os.environ.get("CI") == "true":
            pytest.fail("CI must run this: there is no Go compiler", pytrace=False)
        pytest.skip("there is no Go compiler")
    return Judge(tmp_path_factory.mktemp("admission"))
