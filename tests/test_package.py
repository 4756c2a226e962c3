"""The package as it is built: it holds the chat page, or it is not built at all."""

import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

import pytest

pytest.importorskip("hatchling", reason="left out: hatchling is not installed")

ROOT = Path(__file__).parent.parent
BUILT_FROM = [
    "pyproject.toml",
    "hatch_build.py",
    ".gitignore",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "protocol",
    "server",
]
PAGE = {"index.html": "<!doctype html>", "assets/index.js": "start()"}


def wheel_names(path: Path) -> set[str]:
    with ZipFile(path) as wheel:
        return set(wheel.namelist())


def sdist_names(path: Path) -> set[str]:
    with tarfile.open(path) as sdist:
        return {name.split("/", 1)[-1] for name in sdist.getnames()}


TARGETS = pytest.mark.parametrize(
    ("target", "names", "base"),
    [("wheel", wheel_names, ""), ("sdist", sdist_names, "server/")],
    ids=["wheel", "sdist"],
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The sources as a fresh checkout has them: without the page, which is built from those of the client."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("page", "__pycache__", "node_modules"))
        else:
            shutil.copy(source, tree / name)
    return tree


def build(tree: Path, target: str) -> tuple[subprocess.CompletedProcess[str], list[Path]]:
    out = tree.parent / target
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    return done, sorted(out.glob("turnwire-*"))


@TARGETS
def test_a_package_holds_the_page_with_its_assets(
    tree: Path, target: str, names: Callable[[Path], set[str]], base: str
) -> None:
    page = tree / "server/turnwire/page"
    for name, text in PAGE.items():
        file = page / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    done, built = build(tree, target)
    assert done.returncode == 0, done.stderr
    [package] = built
    held = names(package)
    assert {f"{base}turnwire/page/{name}" for name in PAGE} <= held
    assert f"{base}turnwire/cli.py" in held


@TARGETS
def test_a_package_without_the_page_is_not_built(
    tree: Path, target: str, names: Callable[[Path], set[str]], base: str
) -> None:
    done, built = build(tree, target)
    assert done.returncode != 0
    assert "server/turnwire/page/index.html is missing" in done.stderr
    assert built == []
