"""The workspace tools: how files are listed, read, written and edited, and what the clock tells."""

import os
import stat
import threading
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from turnwire.tools.base import ToolFailure
from turnwire.tools.folder import FILE_BYTES, LISTED_ENTRIES, Folder
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
    without_files = [tool.name for tool in workspace_tools(None, now=lambda: 0)]
    assert without_files == ["calculator", "clock", "ask_user"]
    with pytest.raises(ValueError, match="does not exist"):
        workspace_tools(tmp_path / "nowhere", now=lambda: 0)
