"""Where a fault can show: in the timelines in which its liar, on the line to a sound server, would tell a lie.

Where that liar would let everything pass, its server does as a sound one does. So one play of all timelines, overheard,
tells of each fault which of them need no play of their own.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from broken_server import broken_server
from lying_stream import Liar
from turnwire.conformance.server_suite import play_all
from turnwire_protocol.codec import Format
from turnwire_protocol.timelines import ServerTimelines

Map = dict[str, Any]
Files = list[tuple[str, ServerTimelines]]
T = TypeVar("T")

INSIDE: Final = ("closes_when_full", "hears_closes", "authenticator", "rules", "exit_code")
"""What a liar changes of its server without a word on the line: then the fault may show in any timeline."""


class Heard(Struct, frozen=True):
    """What a liar was asked about, by the name of its method, and the truth."""

    by: Liar
    method: str
    arguments: tuple[Any, ...]
    truth: Any


class Eavesdropper(Liar):
    """Tells the truth, and writes down what goes by."""

    def __init__(self, heard: list[Heard]) -> None:
        self._heard = heard

    def said(self, frame: Map) -> list[Map]:
        return self._tell("said", super().said(frame), frame)

    def asked(self, request: Map) -> list[Map]:
        return self._tell("asked", super().asked(request), request)

    def last_words(self) -> list[Map]:
        return self._tell("last_words", super().last_words())

    def closes(self, code: int) -> int:
        return self._tell("closes", super().closes(code), code)

    def format(self, format: Format) -> Format:
        return self._tell("format", super().format(format), format)

    def status(self, status: int) -> int:
        return self._tell("status", super().status(status), status)

    def _tell(self, method: str, truth: T, *arguments: Any) -> T:
        self._heard.append(Heard(self, method, arguments, truth))
        return truth


async def overhear(files: Files, folder: Path) -> dict[str, list[Heard]]:
    """What goes by between a sound server and its clients in each timeline, all of which must pass."""
    talk: dict[str, list[Heard]] = {}
    for file, content in files:
        for timeline in content.timelines:
            heard: list[Heard] = []
            alone = structs.replace(content, timelines=(timeline,))
            async with broken_server(partial(Eavesdropper, heard), folder) as server:
                (verdict,) = await play_all(server, [(file, alone)])
            assert verdict.outcome == "passed", f"{timeline.name}: {verdict.reason}"
            talk[timeline.name] = heard
    return talk


def can_show(fault: Callable[[], Liar], heard: Iterable[Heard]) -> bool:
    """Whether a liar of this kind on each connection would ever have told something else."""
    if any(getattr(fault(), name) != getattr(Liar, name) for name in INSIDE):
        return True
    liars: dict[Liar, Liar] = {}
    for each in heard:
        if each.by not in liars:
            liars[each.by] = fault()
            liars[each.by].process = each.by.process
        if getattr(liars[each.by], each.method)(*each.arguments) != each.truth:
            return True
    return False


def where_it_can_show(fault: Callable[[], Liar], files: Files, talk: dict[str, list[Heard]]) -> Files:
    """The timelines in which the fault can show, and those that nobody has overheard."""

    def played(content: ServerTimelines) -> ServerTimelines:
        some = [each for each in content.timelines if each.name not in talk or can_show(fault, talk[each.name])]
        return structs.replace(content, timelines=tuple(some))

    return [(file, played(content)) for file, content in files]
