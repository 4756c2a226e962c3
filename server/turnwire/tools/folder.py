"""A folder that no path leaves: every component is opened on its own, from the folder down, following no link.

Nothing here resolves a path first and opens it later, so there is no moment in between in which a component could be
swapped for a link. What a hard link names cannot be told from a file of the folder's own; writing one replaces the
name and leaves the other file as it was.
"""

import errno
import os
import secrets
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from turnwire.tools.base import ToolFailure

FILE_BYTES: Final = 1024 * 1024
"""The largest file that is read or written."""

PATH_CHARACTERS: Final = 1024
PATH_DEPTH: Final = 32
"""How long a path may be, and how many names it may have."""

LISTED_ENTRIES: Final = 500
"""How many entries of a folder are listed."""

_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CREATE_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_SENTENCES: Final = {
    errno.ENOENT: "there is no such file or folder",
    errno.ENOTDIR: "a folder was expected here",
    errno.EISDIR: "it is a folder, not a file",
    errno.EEXIST: "it exists already",
    errno.ELOOP: "it is a symbolic link, and links are not followed",
    errno.EACCES: "the server may not do this",
    errno.EPERM: "the server may not do this",
    errno.ENXIO: "it is not a regular file",
    errno.ENAMETOOLONG: "a name in it is too long",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
    errno.EROFS: "the disk is read-only",
}


class Entry(Struct, frozen=True):
    """One name in a folder; `size` in bytes, for files only."""

    name: str
    type: str
    size: int | None = None


class Folder:
    """Text files below one folder, which is given by whoever runs the server and may itself be a link.

    All methods block and may run in any thread. They raise ToolFailure with a sentence that names the path as given,
    never where the folder lies.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._changes = threading.Lock()  # a change reads, decides and writes: two at once would lose one of them

    def entries(self, path: str) -> tuple[list[Entry], int]:
        """The first LISTED_ENTRIES of a folder by name, and how many there are."""
        names = _names_of(path)
        with _failures_of(path), self._opened(names) as folder:
            found = sorted(os.listdir(folder))
            entries = [_entry(folder, name) for name in found[:LISTED_ENTRIES]]
        return entries, len(found)

    def read(self, path: str) -> str:
        """The whole text of a file."""
        *parents, name = _file_names_of(path)
        with _failures_of(path), self._opened(parents) as folder:
            text, _ = _read_text(path, folder, name)
        return text

    def change(
        self,
        path: str,
        make: Callable[[str | None], str],
        report: Callable[[str, str | None, str], None],
        *,
        create: bool,
    ) -> None:
        """Replaces a file by what `make` gives for its text, which is None where there is none yet.

        With `create` missing folders are made. Other readers see the old text or the new one, nothing between, also
        after a crash. `report` gets the path as it is written without detours, the text before and the text after, in
        the order of the changes.
        """
        *parents, name = _file_names_of(path)
        with self._changes, _failures_of(path), self._opened(parents, create=create) as folder:
            before, mode = _read_if_there(path, folder, name)
            after = make(before)
            _replace(path, folder, name, after, mode)
            report("/".join([*parents, name]), before, after)

    @contextmanager
    def _opened(self, names: list[str], *, create: bool = False) -> Iterator[int]:
        """A descriptor of the folder that these names lead to. Raises OSError."""
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                inner = _open_folder(folder, name, create=create)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


# ------------------------------------------------------------------------------------------------------------ paths


def _names_of(path: str) -> list[str]:
    """The names that a path goes through, without `.` and doubled slashes. Raises ToolFailure."""
    shown = _shown(path)
    if len(path) > PATH_CHARACTERS:
        raise ToolFailure(f"{shown}: a path has at most {PATH_CHARACTERS:,} characters")
    if path.startswith("/"):
        raise ToolFailure(f"{shown}: a path starts in the workspace, not with /")
    if "\0" in path or path != path.encode(errors="replace").decode():
        raise ToolFailure(f"{shown}: it holds a character that no file name has")
    names = [name for name in path.split("/") if name not in ("", ".")]
    if ".." in names:
        raise ToolFailure(f"{shown}: a path does not go up with ..")
    if len(names) > PATH_DEPTH:
        raise ToolFailure(f"{shown}: a path has at most {PATH_DEPTH} names")
    return names


def _file_names_of(path: str) -> list[str]:
    names = _names_of(path)
    if not names or path.endswith(("/", "/.")):
        raise ToolFailure(f"{_shown(path)}: {_SENTENCES[errno.EISDIR]}")
    return names


def _shown(path: str) -> str:
    return repr(path if len(path) <= 120 else path[:119] + "…")


@contextmanager
def _failures_of(path: str) -> Iterator[None]:
    """Says an OSError in a sentence without the folder's own place."""
    try:
        yield
    except OSError as error:
        sentence = _SENTENCES.get(error.errno or 0) or os.strerror(error.errno or 0)
        raise ToolFailure(f"{_shown(path)}: {sentence}") from None


# ------------------------------------------------------------------------------------------------------------ files


def _open_folder(parent: int, name: str, *, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            raise
    except NotADirectoryError:
        # The kernel does not say whether it met a link; the answer only chooses the sentence.
        if stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise
    with suppress(FileExistsError):  # somebody else made it first, or something that the next line refuses
        os.mkdir(name, dir_fd=parent)
    return os.open(name, _FOLDER_FLAGS, dir_fd=parent)


def _read_if_there(path: str, folder: int, name: str) -> tuple[str, int] | tuple[None, None]:
    try:
        return _read_text(path, folder, name)
    except FileNotFoundError:
        return None, None


def _read_text(path: str, folder: int, name: str) -> tuple[str, int]:
    """Text and mode of a file. Raises ToolFailure for what is not text, OSError."""
    descriptor = os.open(name, _READ_FLAGS, dir_fd=folder)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            code = errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO
            raise OSError(code, os.strerror(code))
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(FILE_BYTES + 1)  # and not what the size says: the file may be growing
    finally:
        os.close(descriptor)
    if len(data) > FILE_BYTES:
        raise ToolFailure(f"{_shown(path)}: the file is larger than {FILE_BYTES:,} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ToolFailure(f"{_shown(path)}: it is not a text file (byte {error.start} is not UTF-8)") from None
    if "\0" in text:
        raise ToolFailure(f"{_shown(path)}: it is not a text file (it holds NUL)")
    return text, stat.S_IMODE(mode)


def _replace(path: str, folder: int, name: str, text: str, mode: int | None) -> None:
    data = text.encode(errors="replace")
    if len(data) > FILE_BYTES:
        raise ToolFailure(f"{_shown(path)}: the new text is larger than {FILE_BYTES:,} bytes")
    if "\0" in text:
        raise ToolFailure(f"{_shown(path)}: text holds no NUL")
    draft = f".turnwire-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(draft, _CREATE_FLAGS, 0o666, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode & 0o777)
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(draft, dir_fd=folder)
        raise


def _entry(folder: int, name: str) -> Entry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return Entry(name, "other")  # gone since it was listed
    if stat.S_ISREG(status.st_mode):
        return Entry(name, "file", status.st_size)
    kind = "folder" if stat.S_ISDIR(status.st_mode) else "link" if stat.S_ISLNK(status.st_mode) else "other"
    return Entry(name, kind)
