"""The workspace tools: files are read and written, and no path leaves the folder."""

import errno
import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnwire.tools.base import ToolFailure
from turnwire.tools.folder import FILE_BYTES, LISTED_ENTRIES, PATH_CHARACTERS, PATH_DEPTH, Folder
from turnwire.tools.plain import json_size
from turnwire.tools.registry import ToolRegistry
from turnwire.tools.workspace import READ_BYTES, READ_LINES, clock_tool, workspace_tools

from .conftest import Use, Workspace

# -------------------------------------------------------------------------------------------------------------- files


async def test_L5_a_file_is_written_read_edited_and_reported(workspace: Workspace) -> None:
    assert await workspace.output("write_file", path="./notes//a.txt", text="one\ntwo\n") == {"bytes": 8}
    assert await workspace.output("read_file", path="notes/a.txt") == {
        "text": "one\ntwo\n",
        "first_line": 1,
        "last_line": 2,
        "total_lines": 2,
    }
    assert await workspace.output("edit_file", path="notes/a.txt", old_text="two", new_text="2 ü") == {"replaced": 1}
    assert (workspace.root / "notes/a.txt").read_text() == "one\n2 ü\n"
    assert workspace.changes == [
        ("notes/a.txt", None, "one\ntwo\n"),
        ("notes/a.txt", "one\ntwo\n", "one\n2 ü\n"),
    ]


async def test_L5_only_reading_goes_without_approval(workspace: Workspace) -> None:
    assert {tool.name: tool.approval for tool in workspace.tools} == {
        "list_files": "never",
        "read_file": "never",
        "write_file": "ask",
        "edit_file": "ask",
    }


async def test_L5_a_folder_is_listed_by_name(workspace: Workspace) -> None:
    (workspace.root / "b").mkdir()
    (workspace.root / "a.txt").write_text("four")
    (workspace.root / "c").symlink_to(workspace.outside)
    os.mkfifo(workspace.root / "d")
    os.mknod(os.fsencode(workspace.root) + b"/e\xff")
    assert await workspace.output("list_files") == {
        "entries": [
            {"name": "a.txt", "type": "file", "size": 4},
            {"name": "b", "type": "folder", "size": None},
            {"name": "c", "type": "link", "size": None},
            {"name": "d", "type": "other", "size": None},
            {"name": "e\ufffd", "type": "file", "size": 0},
        ],
        "total": 5,
    }
    assert await workspace.output("list_files", path="b/") == {"entries": [], "total": 0}


async def test_Z3_a_large_folder_is_listed_in_part(workspace: Workspace) -> None:
    for number in range(LISTED_ENTRIES + 1):
        (workspace.root / f"{number:04}").touch()
    listing = await workspace.output("list_files")
    assert len(listing["entries"]) == LISTED_ENTRIES
    assert listing["total"] == LISTED_ENTRIES + 1


@pytest.mark.parametrize(
    ("text", "first_line", "lines", "expected", "last_line"),
    [
        ("a\nb\nc", 1, 2, "a\nb\n", 2),
        ("a\nb\nc", 3, 2, "c", 3),
        ("a\r\nb\r\n", 2, 1, "b\r\n", 2),
        ("", 1, 1, "", 0),
        ("\n", 1, 1, "\n", 1),
        ("a\x0bb\u2028c", 1, 1, "a\x0bb\u2028c", 1),
    ],
)
async def test_Z3_lines_are_read_as_they_stand(
    text: str, first_line: int, lines: int, expected: str, last_line: int, workspace: Workspace
) -> None:
    (workspace.root / "a").write_bytes(text.encode())
    excerpt = await workspace.output("read_file", path="a", first_line=first_line, lines=lines)
    assert (excerpt["text"], excerpt["last_line"]) == (expected, last_line)


async def test_Z3_a_large_file_is_read_in_pieces(workspace: Workspace) -> None:
    text = "".join(f"line {number} \x01\x01\x01\n" for number in range(20_000))
    (workspace.root / "a").write_text(text)
    pieces, first = [], 1
    while first <= 20_000:
        excerpt = await workspace.output("read_file", path="a", first_line=first)
        assert json_size(excerpt["text"]) <= READ_BYTES
        assert excerpt["last_line"] - first < READ_LINES
        pieces.append(excerpt["text"])
        first = excerpt["last_line"] + 1
    assert "".join(pieces) == text
    assert "has only 20,000 lines" in await workspace.error("read_file", path="a", first_line=first)


async def test_Z3_a_line_too_large_to_read_is_a_sentence(workspace: Workspace) -> None:
    (workspace.root / "a").write_text("short\n" + "x" * READ_BYTES)
    assert (await workspace.output("read_file", path="a"))["last_line"] == 1
    assert "line 2 alone" in await workspace.error("read_file", path="a", first_line=2)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x" * (FILE_BYTES + 1), "'a': the file is larger than 1,048,576 bytes"),
        (b"text\xff", "'a': it is not a text file (byte 4 is not UTF-8)"),
        (b"text\x00", "'a': it is not a text file (it holds NUL)"),
    ],
)
async def test_Z3_large_and_binary_files_are_left_alone(content: bytes, sentence: str, workspace: Workspace) -> None:
    (workspace.root / "a").write_bytes(content)
    assert await workspace.error("read_file", path="a") == sentence
    assert await workspace.error("write_file", path="a", text="new") == sentence
    assert await workspace.error("edit_file", path="a", old_text="x", new_text="y") == sentence
    assert (workspace.root / "a").read_bytes() == content
    assert workspace.changes == []


async def test_Z3_no_file_is_written_that_could_not_be_read(workspace: Workspace) -> None:
    assert "larger than" in await workspace.error("write_file", path="a", text="x" * (FILE_BYTES + 1))
    assert "NUL" in await workspace.error("write_file", path="a", text="\0")
    assert list(workspace.root.iterdir()) == []


@pytest.mark.parametrize(
    ("old_text", "sentence"),
    [("x", "old_text does not stand in the file"), ("a", "old_text stands in the file 2 times")],
)
async def test_L5_an_edit_must_be_clear(old_text: str, sentence: str, workspace: Workspace) -> None:
    (workspace.root / "f").write_text("a b a")
    assert sentence in await workspace.error("edit_file", path="f", old_text=old_text, new_text="y")
    assert (workspace.root / "f").read_text() == "a b a"


async def test_L5_an_edit_makes_neither_files_nor_folders(workspace: Workspace) -> None:
    assert "no such file" in await workspace.error("edit_file", path="f", old_text="x", new_text="y")
    assert "no such file" in await workspace.error("edit_file", path="d/f", old_text="x", new_text="y")
    assert list(workspace.root.iterdir()) == []


async def test_L5_edits_at_the_same_time_are_all_kept(workspace: Workspace) -> None:
    (workspace.root / "f").write_text(" ".join(f"<{number}>" for number in range(20)))
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(
                lambda n: workspace.output("edit_file", path="f", old_text=f"<{n}>", new_text=f"[{n}]"), number
            )
    assert (workspace.root / "f").read_text() == " ".join(f"[{number}]" for number in range(20))
    for (_, _, after), (_, before, _) in pairwise(workspace.changes):
        assert after == before


async def test_S3_a_replaced_file_keeps_its_mode_and_its_other_names(workspace: Workspace) -> None:
    script = workspace.root / "run.sh"
    script.write_text("old")
    script.chmod(0o750)
    os.link(script, workspace.outside / "other")
    await workspace.output("write_file", path="run.sh", text="new")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750
    assert (workspace.outside / "other").read_text() == "old"


async def test_S3_a_reader_never_sees_half_a_file(workspace: Workspace) -> None:
    texts = {"a" * 100_000, "b" * 100_000}
    path = workspace.root / "f"
    path.write_text("a" * 100_000)
    stop, seen = threading.Event(), set()

    def watch() -> None:
        while not stop.is_set():
            seen.add(path.read_text())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, watch)
        for number in range(50):
            await workspace.output("write_file", path="f", text="ba"[number % 2] * 100_000)
        stop.set()
    assert seen <= texts


async def test_S3_a_write_that_fails_leaves_no_draft(workspace: Workspace) -> None:
    def swap(before: str | None) -> str:
        (workspace.root / "f").mkdir()  # between the look and the rename
        return "new"

    with pytest.raises(ToolFailure, match="it is a folder"):
        Folder(workspace.root).change("f", swap, lambda *_: None, create=True)
    assert [path.name for path in workspace.root.iterdir()] == ["f"]


# -------------------------------------------------------------------------------------------------------------- paths


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


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


# -------------------------------------------------------------------------------------------------------------- clock


async def test_E4_the_clock_tells_the_time_that_it_is_given(use: Use) -> None:
    clock = clock_tool(lambda: 1_767_225_600_999)
    assert (await use(clock)).output == {"time": "2026-01-01T00:00:00+00:00", "timezone": "UTC"}
    assert (await use(clock, timezone="Asia/Tokyo")).output["time"] == "2026-01-01T09:00:00+09:00"


@pytest.mark.parametrize("name", ["Nowhere/City", "../../etc/passwd", "/etc/passwd", "", "Europe", "a\0b", "ü\udfff"])
async def test_X7_there_is_no_time_zone_outside_the_table(name: str, use: Use) -> None:
    result = await use(clock_tool(lambda: 0), timezone=name)
    assert result.failed
    assert "there is no time zone" in result.error


def test_W9_the_demo_has_all_of_its_tools_in_a_folder_that_exists(tmp_path: Path) -> None:
    registry = ToolRegistry(workspace_tools(tmp_path, now=lambda: 0))
    assert [tool.name for tool in registry] == [
        "list_files",
        "read_file",
        "write_file",
        "edit_file",
        "calculator",
        "clock",
        "ask_user",
    ]
    with pytest.raises(ValueError, match="does not exist"):
        workspace_tools(tmp_path / "nowhere", now=lambda: 0)
