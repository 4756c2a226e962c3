"""How a timeline ends: all that the server still says is heard, and a server that says nothing holds nothing up."""

from functools import partial
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

from conformance_world import FOLLOWED, SECONDS, verdict
from lying_stream import Liar

Map = dict[str, Any]


class Recorder(Liar):
    """Tells the truth, and remembers what was asked."""

    def __init__(self, asked: list[str]) -> None:
        self._ops = asked

    def asked(self, request: Map) -> list[Map]:
        self._ops.append(request["op"])
        return [request]


class SaysMoreAtTheEnd(Liar):
    """Answers `session.create` once more, just before the close."""

    def __init__(self) -> None:
        self._answers: list[Map] = []

    def said(self, frame: Map) -> list[Map]:
        if "session" in frame.get("result", {}):
            self._answers.append(frame)
        return [frame]

    def last_words(self) -> list[Map]:
        return self._answers


class AnswersNoPing(Liar):
    def asked(self, request: Map) -> list[Map]:
        return [] if request["op"] == "ping" else [request]


class AnswersNoClose(Liar):
    hears_closes = False


async def test_W3_what_a_server_says_until_it_closes_is_heard(autojump_clock: MockClock, tmp_path: Path) -> None:
    heard = await verdict(SaysMoreAtTheEnd, tmp_path, *FOLLOWED)
    assert (heard.outcome, heard.broken) == ("failed", "W3")
    assert heard.reason == "at its end: a second answer to request 2, which is not open"


async def test_W3_what_came_before_the_server_closed_counts_though_no_step_looks_at_it(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    heard = await verdict(
        SaysMoreAtTheEnd,
        tmp_path,
        *({**step, "by": "b"} for step in FOLLOWED),
        {"do": "send", "by": "b", "hex": "00"},  # which no connection of JSON outlives
        {"do": "connect"},
        {"do": "ticks"},
    )
    assert (heard.outcome, heard.broken) == ("failed", "W3")


async def test_W3_a_server_that_answers_the_last_request_never_is_blamed_and_not_waited_for(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    silent = await verdict(AnswersNoPing, tmp_path, *FOLLOWED)
    assert (silent.outcome, silent.broken) == ("failed", "W3")
    assert trio.current_time() <= SECONDS


async def test_W8_a_server_that_answers_no_close_is_not_blamed_by_every_timeline(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    assert (await verdict(AnswersNoClose, tmp_path, *FOLLOWED)).outcome == "passed"
    assert trio.current_time() <= SECONDS
    asked = await verdict(AnswersNoClose, tmp_path, *FOLLOWED, {"do": "close"}, {"do": "closed", "code": 1000})
    assert asked.outcome == "failed"


async def test_W6_nothing_more_is_asked_on_a_connection_that_reads_nothing_or_is_cut(
    autojump_clock: MockClock, tmp_path: Path
) -> None:
    ops = ["hello", "session.create", "subscribe"]
    for last, more in (
        ({"do": "read_on"}, ["ping"]),
        ({"do": "stall"}, []),
        ({"do": "cut", "how": "end"}, []),
        ({"do": "close"}, []),
    ):
        asked: list[str] = []
        assert (await verdict(partial(Recorder, asked), tmp_path, *FOLLOWED, last)).outcome == "passed"
        assert asked == ops + more, last
    assert trio.current_time() == 0
