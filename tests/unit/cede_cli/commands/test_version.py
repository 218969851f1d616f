"""`cede version`."""

import json

import pytest

from cede.cli import main


def test_version_in_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert main(["version", "-o", "json"]) == 0
    text, _, document = capsys.readouterr().out.partition("\n")
    assert text == f"cede {json.loads(document)['version']}"
