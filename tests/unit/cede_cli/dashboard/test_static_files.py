"""What the browser gets: names no other machine, and has no code where none should be."""

import re
from importlib.resources import files

import pytest

from cede.dashboard.static_files import INDEX, StaticFiles, type_of
from tests.harness.page_reader import Reader

SVG = "http://www.w3.org/2000/svg"
FOLDER = files("cede.dashboard") / "static"
NAMES = sorted(StaticFiles().names)
MODULES = [name for name in NAMES if name.endswith(".mjs")]


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


@pytest.mark.parametrize("name", NAMES)
async def test_a_file_of_the_page_is_sent_as_what_it_is(reader: Reader, name: str) -> None:
    async with reader.session.get(reader.url + name) as response:
        assert (response.status, response.content_type) == (200, type_of(name))
        assert await response.text() == text_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_it_names_no_other_machine(name: str) -> None:
    text = text_of(name).replace(SVG, "")
    assert "http" not in text
    assert "//" not in re.sub(r"^\s*// .*$", "", text, flags=re.MULTILINE)


def test_the_page_has_no_inline_code_or_style() -> None:
    assert not re.search(r"\sstyle=|\son\w+=|<script>|<style", text_of(INDEX))


@pytest.mark.parametrize("name", MODULES)
def test_no_module_makes_markup_or_code_of_text(name: str) -> None:
    for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert sink not in text_of(name)


def test_all_modules_are_asked_for_at_once() -> None:
    """Else the browser finds one only when it has read another."""
    html = text_of(INDEX)
    assert re.findall(r'rel="modulepreload" href="([^"]+)"', html) == [
        name for name in MODULES if name != "page.mjs"
    ]


@pytest.mark.parametrize("name", MODULES)
def test_every_module_says_what_it_is_for(name: str) -> None:
    assert text_of(name).startswith("// ")
