"""The pack: where the timelines lie, and reading them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeVar

import msgspec

import turnwire_protocol
from turnwire_protocol.timelines import ClientTimeline, ClientTimelines, ServerTimeline, ServerTimelines, TimelineFile

Timelines = TypeVar("Timelines", ServerTimelines, ClientTimelines)

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


def chosen_timelines(
    files: list[tuple[str, TimelineFile]], kind: type[Timelines], text: str | None
) -> list[tuple[str, Timelines]]:
    """The files of this kind, with those timelines only that have `text` in their name, file or rules."""
    chosen: list[tuple[str, Timelines]] = []
    for name, file in files:
        if isinstance(file, kind):
            asked = tuple(each for each in file.timelines if _is_asked_for(each, name, text))
            if asked:
                chosen.append((name, msgspec.structs.replace(file, timelines=asked)))
    return chosen


def _is_asked_for(timeline: ServerTimeline | ClientTimeline, file: str, text: str | None) -> bool:
    return text is None or text in timeline.rules or text in file or text in timeline.name
