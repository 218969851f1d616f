"""The command line: its help shows every word, and a mistake is answered in one line."""

import json
import socket
import subprocess
import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest

from elastic_runtime.__main__ import main, missing_script
from tests.paths import TREE


def run(*words: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elastic_runtime", *words],
        cwd=directory,
        env={"PYTHONPATH": str(TREE)},
        text=True,
        capture_output=True,
    )


def test_help_shows_every_word_by_example(tmp_path: Path) -> None:
    result = run("--help", directory=tmp_path)
    assert result.returncode == 0
    for words in (
        "--local 4 train.py",
        "status",
        "resize 2",
        "save",
        "in place of torchrun",
        "--signal USR1 --done saved.txt -- any command",
        "--port",
        "--directory",
    ):
        assert words in result.stdout


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param([], "which script? `--local 2 train.py` runs it here", id="no script"),
        pytest.param(
            ["-m", "json.tool"], "not in a pod of an elastic job", id="neither a pod nor --local"
        ),
        pytest.param(["--local", "-1", "t.py"], "'-1' is no number of pods from 1", id="-1 pods"),
        pytest.param(["--local", "0", "t.py"], "'0' is no number of pods from 1", id="no pods"),
        pytest.param(["--port", "99999", "t.py"], "'99999' is no port up to 65535", id="port"),
        pytest.param(["status", "--port", "x"], "'x' is no port up to 65535", id="port of a word"),
        pytest.param(["--local", "2", "."], ". is a folder without a __main__.py", id="folder"),
        pytest.param(
            ["-o", "json", "--local", "2", str(TREE / "elastic_runtime")],
            "--output is for status, resize, save, verify, saves, not for a script",
            id="output of a script",
        ),
        pytest.param(["--local", "2", "trian.py"], "there is no trian.py in", id="no such script"),
        pytest.param(["resize"], "resize to how many pods?", id="no size"),
        pytest.param(
            ["--local", "2", "-m", "package.trian"],
            "there is no module package.trian: check its name",
            id="no such module",
        ),
        pytest.param(["-m", "trian"], "there is no module trian", id="no such top module"),
        pytest.param(["-m", "json.tool.x"], "there is no module json.tool.x", id="below a module"),
        pytest.param(
            ["-m", "--signal", "USR1", "json"], "with --signal write `-- python -m", id="both"
        ),
        pytest.param(["resize", "2", "-o", "yaml"], "invalid choice: 'yaml'", id="unknown output"),
        pytest.param(
            ["resize", "two"],
            "resize to how many pods? `resize 2`, not `resize two`",
            id="size is no number",
        ),
        pytest.param(
            ["resize", "2"], "no local job was started in this directory", id="no job to resize"
        ),
        pytest.param(["status"], "no local job was started in this directory", id="no job to ask"),
    ],
)
def test_mistake_is_answered_in_one_line(tmp_path: Path, words: list[str], complaint: str) -> None:
    result = run(*words, directory=tmp_path)
    assert result.returncode != 0
    assert complaint in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("directory", "complaint"),
    [
        pytest.param("train.py", "--directory cannot be made: [Errno 17] File exists", id="a file"),
        pytest.param("/proc/x", "--directory cannot be made: ", id="refused"),
        pytest.param("used", "--directory cannot be written: [Errno 21]", id="not writable"),
    ],
)
def test_a_directory_that_cannot_be_used_is_named_in_one_line(
    tmp_path: Path, directory: str, complaint: str
) -> None:
    (tmp_path / "train.py").touch()
    # Where a key would be, whoever runs this.
    (tmp_path / "used" / "key").mkdir(parents=True)
    result = run("--directory", directory, "--local", "1", "train.py", directory=tmp_path)
    assert result.returncode == 2
    [line] = result.stderr.splitlines()
    assert complaint in line


@pytest.mark.parametrize("words", [["-o", "json", "saves", "."], ["saves", ".", "-o", "json"]])
def test_output_for_programs_may_stand_before_the_word_and_after_it(
    tmp_path: Path, words: list[str]
) -> None:
    assert json.loads(run(*words, directory=tmp_path).stdout) == []


def test_a_python_without_torch_is_named_with_the_cure(tmp_path: Path) -> None:
    """`-S`: without the packages that are installed."""
    (tmp_path / "train.py").touch()
    result = subprocess.run(
        [sys.executable, "-S", "-m", "elastic_runtime", "--local", "2", "train.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(TREE)},
        text=True,
        capture_output=True,
    )
    assert result.returncode == 2
    version = sys.version.split()[0]
    complaint = f"there is no torch for Python {version} ({sys.executable}): use an image that has"
    assert complaint in result.stderr.splitlines()[-1]


class EditableFinder:
    """As setuptools installs one: it maps names to folders that are on no path."""

    def __init__(self, names: dict[str, Path]) -> None:
        self.names = names

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        path = self.names.get(name)
        return spec_from_file_location(name, path) if path else None


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on no path, with modules that may not be imported."""
    for name in ("installed/__init__.py", "installed/train.py", "space/inner/train.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise AssertionError('imported')")
    names = {"installed": tmp_path / "installed" / "__init__.py"}
    names["installed.elsewhere"] = tmp_path / "space" / "inner" / "train.py"
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, EditableFinder(names)])
    return tmp_path


@pytest.mark.parametrize("name", ["installed", "installed.train", "installed.elsewhere"])
def test_a_module_of_an_editable_install_can_be_run(project: Path, name: str) -> None:
    assert missing_script(name, is_module=True) == ""


def test_a_module_in_folders_without_init_files_can_be_run(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(project)
    assert missing_script("space.inner.train", is_module=True) == ""
    assert "there is no module space.inner.x" in missing_script("space.inner.x", is_module=True)


def test_another_system_is_refused_with_what_works_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "argv", ["elastic_runtime", "--local", "2", "train.py"])
    with pytest.raises(SystemExit):
        main()
    error = capsys.readouterr().err
    assert "pods run on Linux only, not on darwin: here `python train.py` trains" in error


def test_unknown_signal_is_answered_in_one_line(tmp_path: Path) -> None:
    result = run("--signal", "BANG", "--", "sleep", "9", directory=tmp_path)
    assert result.returncode != 0
    assert "--signal is 'BANG'" in result.stderr.splitlines()[-1]


def test_verify_logs_broken_checkpoints_beside_its_answer(tmp_path: Path) -> None:
    (tmp_path / "step-000000007").mkdir()
    result = run("verify", str(tmp_path), directory=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    *_, warning, answer = result.stderr.splitlines()
    assert json.loads(warning)["level"] == "WARNING"
    assert f"no checkpoint in {tmp_path} is intact: check the path" in answer


def test_a_port_that_is_taken_is_named_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("--port", str(port), "--local", "1", "train.py", directory=tmp_path)
    assert result.returncode == 2
    assert f"port {port} is taken, perhaps by another job on this machine" in result.stderr
    assert "Traceback" not in result.stderr
