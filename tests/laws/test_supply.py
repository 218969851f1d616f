"""What others wrote is pinned, has a licence that we may use, and comes from where we think."""

import re
from pathlib import Path

import pytest
import yaml

from deploy import licences
from deploy.sbom import locked
from tests.laws.sources import PROJECT, tracked
from tests.paths import TREE

LOCKS = TREE / "deploy" / "locks"
ELSEWHERE = {"colorama": "on Windows only", "uv": "in an environment of its own"}
"""Locked, and not in the environment of this test. Both have a licence that is allowed."""
TEXT_FILES = (".md", ".py", ".sh", ".yaml", ".toml", "Dockerfile", "Makefile")
FETCHES = re.compile(
    # an address, but of this machine, of the local cluster, and one to read
    r"\w://(?!\(|\{|/|127\.0\.0\.1|kubernetes\.default\.svc|go\.dev/dl)"
    r"|\b(curl|wget|npx|git clone|go install|go get|urlretrieve)\b"
    r"|\b(GOSUMDB|GOPRIVATE|GONO\w+|GOINSECURE)\b|GOFLAGS\b.*-insecure"
    r"|--trusted-host|index-url|--no-check-gpg|^\s*ADD\s"
)
"""An address, what downloads without a hash, or what skips the hash."""
INSTALLS = re.compile(r"\bpip\S* (?:install|sync)\b[^;&|]*")
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
ALL_LOCKS = sorted(LOCKS.glob("*.txt"))


def scripts() -> list[str]:
    return [
        path
        for path in tracked()
        if path.endswith((".sh", "Dockerfile", "Makefile"))
        or path == ".ci/run"
        or (path.endswith(".py") and path.startswith(("deploy/", "tests/machine/")))
    ]


def commands(path: str) -> list[str]:
    """The lines of a script without comments; one that goes on is one line. In Python, the words of
    a command are one string."""
    text = (TREE / path).read_text().replace("\\\n", " ")
    if path.endswith(".py"):
        text = re.sub(r"""["'],\s*f?["']""", " ", text)
    return [line.strip() for line in text.splitlines() if not line.lstrip().startswith("#")]


def kustomizations() -> list[tuple[Path, dict[str, list[object]]]]:
    files = [TREE / path for path in tracked() if path.endswith("kustomization.yaml")]
    return [(file.parent, yaml.safe_load(file.read_text())) for file in files]


# --- packages -------------------------------------------------------------------------------------
@pytest.mark.parametrize("lock", ALL_LOCKS, ids=lambda lock: lock.stem)
def test_every_locked_package_is_pinned_by_hash(lock: Path) -> None:
    packages = list(locked(lock))
    assert packages
    assert not [name for name, _, hashes in packages if not hashes]
    # an address would decide where it comes from
    assert "://" not in lock.read_text()


# those beside the frameworks are installed only there: tests/frameworks/test_licences.py
@pytest.mark.parametrize(
    "lock", [lock for lock in ALL_LOCKS if lock.stem != "integrations"], ids=lambda lock: lock.stem
)
def test_every_dependency_has_a_licence_that_is_allowed(lock: Path) -> None:
    vendors = licences.NVIDIA if lock.stem != "controllers" else ()
    names = [name for name, _, _ in locked(lock) if not name.startswith(vendors)]
    assert not licences.refused(name for name in names if name not in ELSEWHERE)


def test_the_image_of_the_controllers_holds_nothing_of_nvidia() -> None:
    names = [name for name, _, _ in locked(LOCKS / "controllers.txt")]
    assert not [name for name in names if name.startswith((*licences.NVIDIA, "torch"))]


def test_every_group_of_dependencies_that_is_installed_is_locked() -> None:
    groups = set(PROJECT["dependency-groups"]) - {"runtime-tests"}
    assert {lock.stem for lock in LOCKS.glob("*.txt")} == groups | {"build", "tools"}


def test_nobody_is_told_to_install_cede_from_an_index() -> None:
    """The name is not ours there: who takes it would own those who follow."""
    instructions = []
    for path in tracked():
        if not path.endswith(TEXT_FILES) or path == "tests/laws/test_supply.py":
            continue
        text = (TREE / path).read_text()
        if re.search(r"""(pip|uv|pipx) (install|add) (-\S+ )*['"]?cede\b""", text):
            instructions.append(path)
    assert not instructions


def test_scripts_and_images_install_only_what_is_locked() -> None:
    """A wheel of our own, and this repository, have nothing to be locked."""
    unlocked = [
        f"{path}: {line}"
        for path in scripts()
        for line in commands(path)
        for install in INSTALLS.findall(line)
        if "--require-hashes" not in install and "--no-deps" not in install
    ]
    assert not unlocked


# --- everything else that is fetched --------------------------------------------------------------
def test_no_script_fetches_what_has_no_hash() -> None:
    """Packages have locks, and Go modules go.sum; Debian signs its own."""
    fetches = [
        f"{path}: {line}" for path in scripts() for line in commands(path) if FETCHES.search(line)
    ]
    assert not fetches


@pytest.mark.parametrize(
    "line",
    [
        "curl -O https://registry.example/x",
        "go env -w GOSUMDB=off",
        "GOPRIVATE=* GOFLAGS=-insecure go mod download",
        'urlopen("https://registry.example/x")',
        'environment = {"GONOSUMDB": "*"}',
    ],
)
def test_what_fetches_without_a_hash_is_noticed(line: str) -> None:
    assert FETCHES.search(line)


def test_every_manifest_that_is_applied_is_in_this_repository() -> None:
    for folder, kustomization in kustomizations():
        for entry in kustomization.get("resources", []):
            # the local cluster has the manifests of Kueue's Go module there
            is_here = (folder / str(entry)).exists() or entry == "../kueue/default"
            assert is_here, f"{folder}: {entry}"


def test_images_of_cede_are_named_by_digest_outside_the_local_cluster() -> None:
    images = [
        image
        for folder, kustomization in kustomizations()
        if "local" not in folder.parts
        for image in kustomization.get("images", [])
    ]
    assert len(images) == len(["production", "ledger", "dashboard"])
    for image in images:
        assert isinstance(image, dict)
        assert set(image) == {"name", "newTag", "digest"}
        assert DIGEST.fullmatch(image["digest"])


def test_every_image_is_built_from_the_base_that_is_given() -> None:
    lines = commands("deploy/Dockerfile")
    parents = [line.split()[1:] for line in lines if line.startswith("FROM ")]
    assert parents[0] == ["${BASE}", "AS", "base"]
    stages = {stage for _, _, stage in parents}
    assert all(parent in stages for parent, _, _ in parents[1:])
    # no default, which would be a tag or grow old
    assert "ARG BASE" in lines
