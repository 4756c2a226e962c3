"""What has become of one file: counts and a unified patch within a bound (L5, Z4). Knows no Turn."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import UNSET

from turnwire.models.base import clean_text
from turnwire.tools.line_diff import Budget, Change, changes, lines_of
from turnwire.tools.plain import json_size
from turnwire_protocol.mutations import FileChange

CONTEXT_LINES: Final = 3
"""How many equal lines a patch shows around a change."""

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


def file_change(path: str, before: str | None, after: str | None, budget: Budget, patch_room: int) -> FileChange:
    """The change of one file; without a patch where that would take more than `patch_room` bytes of JSON.

    Where the budget ends all lines count as replaced.
    """
    path = clean_text(path)
    found, old, new = _compared(clean_text(before or ""), clean_text(after or ""), budget)
    patch = None
    if old is not None and new is not None:
        patch = _patch(_header(path, before is None, after is None), found, old, new, patch_room)
    return FileChange(
        path=path,
        status="added" if before is None else "deleted" if after is None else "modified",
        additions=sum(change.new_end - change.new_start for change in found),
        deletions=sum(change.end - change.start for change in found),
        patch=UNSET if patch is None else patch,
    )


def _compared(
    before: str, after: str, budget: Budget
) -> tuple[list[Change], Sequence[str] | None, Sequence[str] | None]:
    """The changes, and the lines themselves; texts too large even to be cut into lines count as replaced."""
    height, width = count_lines(before), count_lines(after)
    if not budget.pay(height + width):
        return [Change(0, height, 0, width)], None, None
    old, new = lines_of(before), lines_of(after)
    return changes(old, new, budget), old, new


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") if text else 0)


# ---------------------------------------------------------------------------------------------------------- patches


def _header(path: str, is_new: bool, is_gone: bool) -> str:
    old = "/dev/null" if is_new else _quoted(f"a/{path}")
    new = "/dev/null" if is_gone else _quoted(f"b/{path}")
    return f"--- {old}\n+++ {new}\n"


def _quoted(name: str) -> str:
    """The name as it is, or in quotes as C writes it where it holds quotes, backslashes or control characters."""
    if not any(character in '"\\' or ord(character) < 32 or ord(character) == 127 for character in name):
        return name
    return '"' + "".join(_escaped(character) for character in name) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return f"\\{ord(character):03o}" if ord(character) < 32 or ord(character) == 127 else character


def _patch(header: str, found: list[Change], old: Sequence[str], new: Sequence[str], room: int) -> str | None:
    """The unified patch; None as soon as it is clear that it needs more than `room` bytes of JSON."""
    pieces = [header]
    length = len(header)
    for hunk in _hunks(found):
        for line in _hunk_lines(hunk, old, new):
            pieces.append(line)
            length += len(line)
            if length > room:  # a character takes at least a byte
                return None
    patch = "".join(pieces)
    return patch if json_size(patch) <= room else None


def _hunks(found: Iterable[Change]) -> Iterator[list[Change]]:
    """Changes that are so near to each other that their context would touch."""
    hunk: list[Change] = []
    for change in found:
        if hunk and change.start - hunk[-1].end > 2 * CONTEXT_LINES:
            yield hunk
            hunk = []
        hunk.append(change)
    if hunk:
        yield hunk


def _hunk_lines(hunk: list[Change], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    lead = min(CONTEXT_LINES, hunk[0].start)
    tail = min(CONTEXT_LINES, len(old) - hunk[-1].end)
    start, end = hunk[0].start - lead, hunk[-1].end + tail
    new_start, new_end = hunk[0].new_start - lead, hunk[-1].new_end + tail
    yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"
    at = start
    for change in hunk:
        yield from _marked(" ", old[at : change.start])
        yield from _marked("-", old[change.start : change.end])
        yield from _marked("+", new[change.new_start : change.new_end])
        at = change.end
    yield from _marked(" ", old[at:end])


def _range(start: int, end: int) -> str:
    """A range as patches write it: lines count from 1, and an empty range names the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line
        if not line.endswith("\n"):
            yield "\n" + _NO_NEWLINE
