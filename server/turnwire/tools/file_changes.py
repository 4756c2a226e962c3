"""What a Turn has changed in files, within bounds of memory and work: one net change for each path (L5, Z4).

How one file's change is counted and shown is `diffs`.
"""

import hashlib
import sys
import threading
from typing import Final

import trio
from msgspec import UNSET, Struct, structs

from turnwire.tools.base import PATCH_BYTES, FileDiffSummary
from turnwire.tools.diffs import count_lines, file_change
from turnwire.tools.line_diff import Budget
from turnwire.tools.plain import json_size
from turnwire.tools.threads import ThreadLimit
from turnwire_protocol.mutations import FileChange

KEPT_BYTES: Final = 8 * 1024 * 1024
"""How much memory the texts of one Turn's files may take. Files beyond are compared as each change comes."""

NAMES_BYTES: Final = 4 * 1024 * 1024
"""How much memory the names of one Turn's files may take. Changes of files beyond count, under no name."""

WORK_UNITS: Final = 1_000_000
"""How much comparing one summary may do, see `Budget`: a fraction of a second."""

CHANGE_UNITS: Final = 250_000
"""How much comparing one change may do that is compared as it comes: a tenth of a second or two."""

LIST_BYTES: Final = 64 * 1024
"""The most JSON bytes of the files in one summary, patches aside; those beyond are counted and not named."""

QUICK_CHARACTERS: Final = 64 * 1024
QUICK_LINES: Final = 100
"""Changes within both are compared in a few milliseconds."""

SUMMARY_SECONDS: Final = 2.0
"""How long the end of a Turn waits for a thread that compares: twice what that takes at most on an idle machine."""

COMPARING_THREADS: Final = 4

_threads: Final = ThreadLimit("comparing", COMPARING_THREADS)

_NAME_BYTES: Final = 500
"""What is kept of a file besides its name and texts, rounded up."""


class _Kept(Struct, frozen=True):
    """A file whose first and last text are kept; None where there was none."""

    before: str | None
    after: str | None

    @property
    def memory(self) -> int:
        return sum(sys.getsizeof(text) for text in (self.before, self.after) if text is not None)


class _Counted(Struct, frozen=True):
    """A file that was too large to be kept: the counts of all its changes, and digests of its first and last text."""

    change: FileChange
    before: bytes | None
    after: bytes | None


class FileChanges:
    """Collects the changes of one Turn; `changed` may be called from any thread."""

    def __init__(self, *, kept_bytes: int = KEPT_BYTES, names_bytes: int = NAMES_BYTES) -> None:
        self._turns = threading.Lock()
        """One change is taken after the other. Comparing takes a while, for which only others that change wait."""
        self._lock = threading.Lock()
        """Held for moments only: it is taken in the thread that serves everybody, too."""
        self._files: dict[str, _Kept | _Counted] = {}
        self._texts_room = kept_bytes
        self._names_room = names_bytes
        self._nameless = FileDiffSummary((), 0, 0)

    def changed(self, path: str, before: str | None, after: str | None) -> None:
        """Notes that the file's whole text was `before` and is `after`; None where there is none.

        Of several changes of a path the first `before` and the last `after` count, while there is room for them.
        Raises TypeError for anything else: it fails the call that said so, and not the Turn.
        """
        if not isinstance(path, str):
            raise TypeError(f"changed: path is text, not {type(path).__name__}")
        for name, text in (("before", before), ("after", after)):
            if not isinstance(text, str | None):
                raise TypeError(f"changed: {name} is text or None, not {type(text).__name__}")
        with self._turns:
            known = self._files.get(path)
            if known is None and not self._takes_name(path):
                change = _compared(path, before, after)
                with self._lock:
                    additions, deletions = self._nameless.additions, self._nameless.deletions
                    self._nameless = FileDiffSummary((), additions + change.additions, deletions + change.deletions)
                return
            if isinstance(known, _Counted):
                file: _Kept | _Counted = _went_on(known, before, after)
            else:
                file = self._keep(path, known, before, after)
            with self._lock:
                self._files[path] = file

    def _takes_name(self, path: str) -> bool:
        size = sys.getsizeof(path) + _NAME_BYTES
        if size > self._names_room:
            return False
        self._names_room -= size
        return True

    def _keep(self, path: str, known: _Kept | None, before: str | None, after: str | None) -> _Kept | _Counted:
        """Keeps the texts, or what can be said without them."""
        held = 0 if known is None else known.memory
        net = _Kept(before if known is None else known.before, after)
        if net.memory <= self._texts_room + held:
            self._texts_room += held - net.memory
            return net
        self._texts_room += held
        counted = None if known is None else _counted(path, known.before, known.after)
        return _counted(path, before, after) if counted is None else _went_on(counted, before, after)

    async def summarise(self) -> FileDiffSummary | None:
        """The `summary`, made in a thread where that may take longer than everyone else should wait.

        Where no thread has made it within SUMMARY_SECONDS all lines count as replaced: a Turn that ends waits no longer
        (T3).
        """
        if self._is_quick():
            return self.summary()
        with trio.move_on_after(SUMMARY_SECONDS):
            return await trio.to_thread.run_sync(self.summary, limiter=_threads.limiter(), abandon_on_cancel=True)
        return self.summary(work_units=0)

    def _is_quick(self) -> bool:
        with self._lock:
            kept = [file for file in self._files.values() if isinstance(file, _Kept)]
        texts = [text for file in kept for text in (file.before, file.after) if text]
        return sum(map(len, texts)) <= QUICK_CHARACTERS and sum(map(count_lines, texts)) <= QUICK_LINES

    def summary(self, *, work_units: int = WORK_UNITS) -> FileDiffSummary | None:
        """All net changes so far, in the order of the paths' first changes; None when nothing has changed in the end.

        Work and memory are bounded, so of very large changes the counts may be higher than those of the shortest
        diff: where comparing ends, all lines count as replaced, and where texts are not kept, every change counts.
        Patches are given while they fit into PATCH_BYTES of JSON together; a file whose patch does not fit, or whose
        texts are not kept, has none. Takes up to about a second.
        """
        with self._lock:
            net = {path: file for path, file in self._files.items() if file.before != file.after}
            additions, deletions = self._nameless.additions, self._nameless.deletions
        budget, patch_room, list_room = Budget(work_units), PATCH_BYTES, LIST_BYTES
        files: list[FileChange] = []
        for path, file in net.items():
            if isinstance(file, _Counted):
                change = file.change
            else:
                change = file_change(path, file.before, file.after, budget, patch_room)
            additions += change.additions
            deletions += change.deletions
            list_room -= json_size(structs.replace(change, patch=UNSET))
            if list_room >= 0:
                files.append(change)
                patch_room -= 0 if change.patch is UNSET else json_size(change.patch)
        if not (net or additions or deletions):
            return None
        return FileDiffSummary(tuple(files), additions, deletions)


def _compared(path: str, before: str | None, after: str | None) -> FileChange:
    return file_change(path, before, after, Budget(CHANGE_UNITS), patch_room=0)


def _counted(path: str, before: str | None, after: str | None) -> _Counted:
    return _Counted(_compared(path, before, after), _digest(before), _digest(after))


def _went_on(known: _Counted, before: str | None, after: str | None) -> _Counted:
    """The file as it is after one more change."""
    more, last = _compared(known.change.path, before, after), _digest(after)
    change = structs.replace(
        known.change,
        status="added" if known.before is None else "deleted" if last is None else "modified",
        additions=known.change.additions + more.additions,
        deletions=known.change.deletions + more.deletions,
    )
    return _Counted(change, known.before, last)


def _digest(text: str | None) -> bytes | None:
    return None if text is None else hashlib.sha256(text.encode(errors="surrogatepass")).digest()
