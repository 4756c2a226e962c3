"""The house rules that a machine can check: imports go downwards, and the project stands alone."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (
    {
        "turnwire.app",
        "turnwire.cli",
        "turnwire.__main__",
        "turnwire.flags",
        "turnwire.flag_values",
        "turnwire.settings",
        "turnwire.conformance",
        "turnwire.database",
        "turnwire.logs",
        "turnwire.metrics",
        "turnwire.signals",
        "turnwire.stopping",
        "turnwire.token_command",
    },
    {"turnwire.gateway"},
    {"turnwire.sessions"},
    {"turnwire.context"},
    {"turnwire.store", "turnwire.models", "turnwire.tools"},
    {"turnwire_protocol"},
    {"turnwire.measures", "turnwire.extensions"},
)
"""From the top down; a module imports from its own layer and from those below."""

FOREIGN = {
    "protocol/turnwire_protocol": {"trio", "apsw", "websockets", "turnwire"},
    "server/turnwire/sessions": {"apsw", "websockets"},
    "server/turnwire/store": {"websockets"},
    "server/turnwire/context": {"websockets", "apsw"},
    "server/turnwire/models": {"websockets", "apsw"},
    "server/turnwire/tools": {"websockets", "apsw"},
    "server/turnwire/gateway": {"apsw"},
}
"""What a package must not know."""

SOURCES = sorted([*(ROOT / "server").rglob("*.py"), *(ROOT / "protocol" / "turnwire_protocol").rglob("*.py")])


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts[1:]
    return ".".join(part for part in parts if part != "__init__")


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return found


def layer_of(module: str) -> int | None:
    for number, names in enumerate(LAYERS):
        if any(module == name or module.startswith(f"{name}.") for name in names):
            return number
    return None


def test_there_are_sources_to_look_at() -> None:
    assert len(SOURCES) > 30


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards_only(path: Path) -> None:
    mine = layer_of(module_of(path))
    for module in imports_of(path):
        theirs = layer_of(module)
        if mine is not None and theirs is not None:
            assert mine <= theirs, f"{path.name} imports {module}, which stands above it"


@pytest.mark.parametrize("package", FOREIGN)
def test_no_package_knows_what_is_none_of_its_business(package: str) -> None:
    for path in (ROOT / package).rglob("*.py"):
        roots = {module.split(".")[0] for module in imports_of(path)}
        assert not roots & FOREIGN[package], f"{path.relative_to(ROOT)} imports {roots & FOREIGN[package]}"


def test_no_file_names_a_registry_or_a_place_outside_the_project() -> None:
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    registries = ["pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "npmjs" + ".com"]
    for name in filter(None, files):
        path = ROOT / name
        if not path.is_file() or path.suffix in (".png", ".ico", ".woff2"):
            continue
        text = path.read_text()
        assert not [registry for registry in registries if registry in text], name
