"""The pack: where the timelines lie, and reading them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import turnwire_protocol
from turnwire_protocol.timelines import TimelineFile

_INSTALLED: Final = Path(__file__).parent / "timelines"
_IN_SOURCES: Final = Path(turnwire_protocol.__file__).parents[1] / "vectors" / "timelines"


def pack_folder() -> Path:
    """The folder of the timelines that belong to this version."""
    return _INSTALLED if _INSTALLED.is_dir() else _IN_SOURCES


def read_timelines(path: Path) -> TimelineFile:
    """The timelines of one file. Raises ValueError that names the file and the place of the fault."""
    try:
        file: TimelineFile = msgspec.json.decode(path.read_bytes(), type=TimelineFile)
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path}: {error}") from None
    return file


def timeline_files(folder: Path) -> Iterator[tuple[str, TimelineFile]]:
    """Every file below the folder with its name, in order. Raises ValueError for one that is not right."""
    for path in sorted(folder.rglob("*.json")):
        yield f"{path.parent.name}/{path.stem}", read_timelines(path)
