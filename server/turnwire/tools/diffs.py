"""What a Turn has changed in files: one net change for each path, counts, and patches within a bound (L5, Z4)."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import trio
from msgspec import UNSET

from turnwire.models.base import clean_text
from turnwire.tools.base import PATCH_BYTES, FileDiffSummary
from turnwire.tools.line_diff import Budget, Change, changes, lines_of
from turnwire.tools.plain import json_size
from turnwire_protocol.mutations import FileChange

WORK_UNITS: Final = 1_000_000
"""How much comparing one summary may do, see `Budget`: a fraction of a second."""

PATH_BYTES: Final = 64 * 1024
"""The most JSON bytes of paths in one summary; files beyond are counted and not named."""

CONTEXT_LINES: Final = 3
"""How many equal lines a patch shows around a change."""

QUICK_CHARACTERS: Final = 64 * 1024
QUICK_LINES: Final = 100
"""Changes within both are compared in a few milliseconds."""

_NO_NEWLINE: Final = "\\ No newline at end of file\n"


class FileChanges:
    """Collects the changes of one Turn; `changed` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[str, tuple[str | None, str | None]] = {}

    def changed(self, path: str, before: str | None, after: str | None) -> None:
        """Notes that the file's whole text was `before` and is `after`; None where there is none.

        Of several changes of a path the first `before` and the last `after` count.
        """
        with self._lock:
            first, _ = self._files.get(path, (before, None))
            self._files[path] = (first, after)

    async def summarise(self) -> FileDiffSummary | None:
        """The `summary`, made in a thread where that may take longer than everyone else should wait."""
        return self.summary() if self._is_quick() else await trio.to_thread.run_sync(self.summary)

    def _is_quick(self) -> bool:
        with self._lock:
            texts = [text for pair in self._files.values() for text in pair if text]
        return sum(map(len, texts)) <= QUICK_CHARACTERS and sum(map(_count_lines, texts)) <= QUICK_LINES

    def summary(self) -> FileDiffSummary | None:
        """All net changes so far, in the order of the paths' first changes; None when nothing has changed in the end.

        Work is bounded, so of very large changes the counts may be higher than those of the shortest diff: where
        comparing ends, all lines count as replaced. Patches are given while they fit into PATCH_BYTES of JSON together;
        a file whose patch does not fit has none. Takes up to about a second.
        """
        with self._lock:
            net = {path: texts for path, texts in self._files.items() if texts[0] != texts[1]}
        if not net:
            return None
        budget, patch_room, path_room = Budget(WORK_UNITS), PATCH_BYTES, PATH_BYTES
        files: list[FileChange] = []
        additions = deletions = 0
        for path, (before, after) in net.items():
            change = _file_change(clean_text(path), before, after, budget, patch_room)
            additions += change.additions
            deletions += change.deletions
            path_room -= json_size(change.path)
            if path_room >= 0:
                files.append(change)
                patch_room -= 0 if change.patch is UNSET else json_size(change.patch)
        return FileDiffSummary(tuple(files), additions, deletions)


def _file_change(path: str, before: str | None, after: str | None, budget: Budget, patch_room: int) -> FileChange:
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
    height, width = _count_lines(before), _count_lines(after)
    if not budget.pay(height + width):
        return [Change(0, height, 0, width)], None, None
    old, new = lines_of(before), lines_of(after)
    return changes(old, new, budget), old, new


def _count_lines(text: str) -> int:
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
