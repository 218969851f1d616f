"""The licence of a package, as its metadata has it."""

from email.message import Message

import pytest

from deploy.licences import of_package


def metadata(**fields: str | list[str]) -> Message:
    message = Message()
    for name, value in fields.items():
        for text in [value] if isinstance(value, str) else value:
            message.add_header(name.replace("_", "-"), text)
    return message


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"License_Expression": "MIT"}, {"MIT"}, id="SPDX"),
        pytest.param(
            {"License_Expression": "(Apache-2.0 OR BSD-3-Clause) AND MIT"},
            {"Apache-2.0", "BSD-3-Clause", "MIT"},
            id="an expression",
        ),
        pytest.param(
            {"License_Expression": "Apache-2.0 WITH LLVM-exception AND GPL-3.0-only"},
            {"Apache-2.0", "GPL-3.0-only"},
            id="an exception allows more",
        ),
        pytest.param(
            {"Classifier": ["License :: OSI Approved :: BSD License", "Topic :: x"]},
            {"BSD-3-Clause"},
            id="a classifier",
        ),
        pytest.param({"License": "Apache 2.0"}, {"Apache-2.0"}, id="the old field"),
        pytest.param({"License": "first line\n second line"}, set(), id="a whole text"),
        pytest.param({}, set(), id="nothing"),
    ],
)
def test_the_licences_of_a_package(fields: dict[str, str | list[str]], expected: set[str]) -> None:
    assert of_package(metadata(**fields)) == expected
