"""No path leaves the workspace folder: links, swaps, devices, and whatever a model may write."""

import errno
import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwire.tools.base import ToolFailure
from turnwire.tools.folder import PATH_CHARACTERS, PATH_DEPTH, Folder

from .conftest import Workspace


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/etc/passwd", "a path starts in the workspace"),
        ("../outside/secret.txt", "does not go up"),
        ("a/../../outside/secret.txt", "does not go up"),
        ("a/..", "does not go up"),
        ("a\0b", "a character that no file name has"),
        ("a\ud800", "a character that no file name has"),
        ("x" * (PATH_CHARACTERS + 1), "at most 1,024 characters"),
        ("x" * 256, "a name in it is too long"),
        ("/".join("x" * (PATH_DEPTH + 1)), "at most 32 names"),
        ("", "it is a folder"),
        (".", "it is a folder"),
        ("folder", "it is a folder"),
        ("folder/", "it is a folder"),
        ("file/", "it is a folder"),
        ("file/inner", "a folder was expected"),
        ("link", "it is a symbolic link"),
        ("dangling", "it is a symbolic link"),
        ("loop", "it is a symbolic link"),
        ("inside", "it is a symbolic link"),
        ("linked/secret.txt", "it is a symbolic link"),
        ("folder/linked/secret.txt", "it is a symbolic link"),
        ("nowhere/secret.txt", "it is a symbolic link"),
        ("fifo", "it is not a regular file"),
        ("socket", "it is not a regular file"),
    ],
)
async def test_X7_no_path_leads_out_of_the_workspace(path: str, sentence: str, workspace: Workspace) -> None:
    root, outside = workspace.root, workspace.outside
    (root / "folder").mkdir()
    (root / "file").write_text("x")
    (root / "link").symlink_to(outside / "secret.txt")
    (root / "dangling").symlink_to(outside / "new.txt")
    (root / "loop").symlink_to("loop")
    (root / "inside").symlink_to("file")
    (root / "linked").symlink_to(outside)
    (root / "folder" / "linked").symlink_to("../../outside")
    (root / "nowhere").symlink_to(outside / "new")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for error in (
            await workspace.error("read_file", path=path),
            await workspace.error("write_file", path=path, text="x"),
            await workspace.error("edit_file", path=path, old_text="x", new_text="y"),
        ):
            assert sentence in error
            assert str(root) not in error
            assert len(error) < 250
    workspace.assert_untouched()


async def test_X7_folders_are_not_listed_through_links(workspace: Workspace) -> None:
    (workspace.root / "linked").symlink_to(workspace.outside)
    assert "symbolic link" in await workspace.error("list_files", path="linked")
    assert "symbolic link" in await workspace.error("list_files", path="linked/.")
    assert "does not go up" in await workspace.error("list_files", path="..")


async def test_X7_the_workspace_itself_may_be_a_link(tmp_path: Path, workspace: Workspace) -> None:
    (workspace.root / "a").write_text("text")
    (tmp_path / "shortcut").symlink_to(workspace.root)
    assert Folder(tmp_path / "shortcut").read("a") == "text"


def _swap_file(root: Path, outside: Path) -> None:
    (root / "d" / "f").unlink()
    (root / "d" / "f").symlink_to(outside / "secret.txt")


def _swap_folder(root: Path, outside: Path) -> None:
    (root / "d").rename(root / "moved")
    (root / "d").symlink_to(outside)


@pytest.mark.parametrize("swap", [_swap_file, _swap_folder])
def test_X7_a_component_swapped_during_a_change_leads_nowhere(
    swap: Callable[[Path, Path], None], workspace: Workspace
) -> None:
    (workspace.root / "d").mkdir()
    (workspace.root / "d" / "f").write_text("old")

    def make(before: str | None) -> str:
        assert before == "old"
        swap(workspace.root, workspace.outside)
        return "new"

    Folder(workspace.root).change("d/f", make, lambda *_: None, create=True)
    workspace.assert_untouched()
    assert "new" in [path.read_text() for path in workspace.root.rglob("f") if not path.is_symlink()]


def test_X7_a_component_swapped_all_the_time_leads_nowhere(workspace: Workspace) -> None:
    door, real = workspace.root / "door", workspace.root / "real"
    real.mkdir()
    (real / "secret.txt").write_text("mine")
    stop = threading.Event()

    def spin() -> None:
        spare = workspace.root / "spare"
        while not stop.is_set():
            for target in (workspace.outside, real):
                spare.symlink_to(target)
                spare.rename(door)
            door.unlink()
            real.rename(door)
            door.rename(real)

    spinner = threading.Thread(target=spin)
    spinner.start()
    folder = Folder(workspace.root)
    read = refused = tries = 0
    try:
        while (read < 10 or refused < 1_000) and tries < 200_000:
            tries += 1
            try:
                assert folder.read("door/secret.txt") == "mine"
                read += 1
            except ToolFailure:
                refused += 1
    finally:
        stop.set()
        spinner.join()
    workspace.assert_untouched()
    assert min(read, refused) > 0, "the door never moved: this has tested nothing"


names = st.sampled_from(
    ["..", ".", "", "a", "d", "linked", "link", "up", "outside", "secret.txt", "workspace"]
) | st.text(max_size=4)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(parts=st.lists(names, max_size=6), lead=st.sampled_from(["", "/", "//", "./", "../"]))
def test_X7_whatever_the_path_nothing_outside_is_read_or_written(
    parts: list[str], lead: str, workspace: Workspace
) -> None:
    root = workspace.root
    for link, target in {"linked": "../outside", "link": "../outside/secret.txt", "up": ".."}.items():
        if not (root / link).is_symlink():
            (root / link).symlink_to(target)
    folder, path = Folder(root), lead + "/".join(parts)
    with suppress(ToolFailure):
        folder.change(path, lambda before: "new", lambda *_: None, create=True)
    with suppress(ToolFailure):
        assert folder.read(path) == "new"
    with suppress(ToolFailure):
        assert "secret.txt" not in {entry.name for entry in folder.entries(path)[0] if entry.size == len("secret")}
    workspace.assert_untouched()
    assert {each.name for each in root.parent.iterdir()} == {"workspace", "outside"}
    assert {link for link in ("linked", "link", "up") if (root / link).is_symlink()} == {"linked", "link", "up"}


def _given(text: str, before: str | None) -> str:
    return text


def test_X7_no_descriptor_is_left_open(workspace: Workspace) -> None:
    (workspace.root / "d").mkdir()
    os.mkfifo(workspace.root / "d" / "fifo")
    (workspace.root / "d" / "f").write_text("x")
    (workspace.root / "link").symlink_to("d")
    folder = Folder(workspace.root)

    def everything() -> None:
        folder.entries("d")
        for path in ("d/f", "d", "d/fifo", "link/f", "d/none", "none/none", "d/f/g"):
            with suppress(ToolFailure):
                folder.read(path)
            for text in ("x", "\0"):
                with suppress(ToolFailure):
                    folder.change(path, partial(_given, text), lambda *_: None, create=False)

    everything()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        everything()
    assert len(os.listdir("/proc/self/fd")) == before


def test_W9_what_the_system_refuses_is_a_sentence(workspace: Workspace) -> None:
    def full(before: str | None) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ToolFailure, match="'f': the disk is full"):
        Folder(workspace.root).change("f", full, lambda *_: None, create=True)
