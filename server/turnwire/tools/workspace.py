"""The demo's tools: files in one workspace folder, a calculator, a clock, and the question to the user.

Which paths are allowed and how files are read and written is `folder`.
"""

from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias
from zoneinfo import ZoneInfo

from msgspec import Meta

from turnwire.tools.base import Tool, ToolContext, ToolFailure
from turnwire.tools.calculator import calculator
from turnwire.tools.folder import Folder
from turnwire.tools.functions import tool
from turnwire.tools.line_diff import lines_of
from turnwire.tools.plain import json_size
from turnwire.tools.questions import ask_user

READ_BYTES: Final = 128 * 1024
"""How many JSON bytes of text one `read_file` gives: half of what a result may have."""

READ_LINES: Final = 2_000
"""How many lines one `read_file` gives at most."""

FilePath: TypeAlias = Annotated[str, Meta(description="Path of the file, relative to the workspace folder")]


def workspace_tools(folder: Path | None, *, now: Callable[[], int]) -> list[Tool]:
    """All tools of the demo; without a folder those that need none. `now` gives milliseconds since the epoch.

    Raises ValueError when there is no such folder.
    """
    if folder is not None and not folder.is_dir():
        raise ValueError(f"the workspace folder {folder} does not exist")
    files = [] if folder is None else file_tools(Folder(folder))
    return [*files, calculator, clock_tool(now), ask_user]


def file_tools(folder: Folder) -> list[Tool]:
    """Listing and reading, which need no approval; writing and editing, which ask for it."""

    @tool
    def list_files(
        path: Annotated[str, Meta(description="Path of the folder, relative to the workspace folder")] = ".",
    ) -> dict[str, Any]:
        """Lists the files and folders in one folder of the workspace, sorted by name."""
        entries, total = folder.entries(path)
        return {"entries": entries, "total": total}

    @tool
    def read_file(
        path: FilePath,
        first_line: Annotated[int, Meta(ge=1, description="The first line to read, counted from 1")] = 1,
        lines: Annotated[int, Meta(ge=1, le=READ_LINES, description="How many lines to read")] = READ_LINES,
    ) -> dict[str, Any]:
        """Reads lines of a text file in the workspace; `last_line` and `total_lines` say whether there are more."""
        return _excerpt(folder.read(path), first_line, lines)

    @tool(approval="ask")
    def write_file(
        path: FilePath,
        text: Annotated[str, Meta(description="The whole new text of the file")],
        context: ToolContext,
    ) -> dict[str, Any]:
        """Writes a text file in the workspace. An existing file is replaced, missing folders are made."""
        folder.change(path, lambda before: text, context.changed, create=True)
        return {"bytes": len(text.encode())}

    @tool(approval="ask")
    def edit_file(
        path: FilePath,
        old_text: Annotated[str, Meta(min_length=1, description="Text that stands in the file exactly once")],
        new_text: Annotated[str, Meta(description="What stands there afterwards")],
        context: ToolContext,
    ) -> dict[str, Any]:
        """Replaces one passage of a text file in the workspace."""

        def edited(before: str | None) -> str:
            if before is None:
                raise ToolFailure(f"{path!r}: there is no such file")
            count = before.count(old_text)
            if count != 1:
                found = "does not stand in the file" if not count else f"stands in the file {count} times"
                raise ToolFailure(f"old_text {found}; it must stand there exactly once")
            return before.replace(old_text, new_text)

        folder.change(path, edited, context.changed, create=False)
        return {"replaced": 1}

    return [list_files, read_file, write_file, edit_file]


def _excerpt(text: str, first: int, count: int) -> dict[str, Any]:
    all_lines = lines_of(text)
    if first > max(len(all_lines), 1):
        raise ToolFailure(f"first_line: the file has only {len(all_lines):,} lines")
    kept: list[str] = []
    room = READ_BYTES
    for line in all_lines[first - 1 : first - 1 + count]:
        room -= json_size(line)
        if room < 0:
            break
        kept.append(line)
    if not kept and all_lines:
        raise ToolFailure(f"line {first} alone is more than the {READ_BYTES:,} bytes that can be read at once")
    return {
        "text": "".join(kept),
        "first_line": first,
        "last_line": first + len(kept) - 1,
        "total_lines": len(all_lines),
    }


def clock_tool(now: Callable[[], int]) -> Tool:
    """A clock that tells what `now` tells, in milliseconds since the epoch."""

    @tool
    async def clock(
        timezone: Annotated[str, Meta(max_length=64, description="Name of a time zone, such as Europe/Zurich")] = "UTC",
    ) -> dict[str, Any]:
        """Tells the present date and time."""
        moment = datetime.fromtimestamp(now() / 1000, UTC)
        return {"time": moment.astimezone(_zone(timezone)).isoformat(timespec="seconds"), "timezone": timezone}

    return clock


def _zone(name: str) -> tzinfo:
    if name == "UTC":
        return UTC  # also where the machine has no table of time zones
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ToolFailure(f"timezone: there is no time zone {name!r}") from None
