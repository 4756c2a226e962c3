"""The pack's clients: what they make of frames and of steps, besides the standing rules."""

from pathlib import Path
from typing import Any

import pytest
from trio.testing import MockClock

from conformance_world import FOLLOWED, verdict
from lying_stream import Liar

Map = dict[str, Any]


class PromisesSmallFrames(Liar):
    def said(self, frame: Map) -> list[Map]:
        if frame["op"] == "welcome":
            return [{**frame, "limits": {**frame["limits"], "max_frame": 600}}]
        return [frame]


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"do": "answer", "to": "nothing"}, "client a has sent no request called nothing"),
        ({"do": "view", "session": "$other", "state": {}}, "client a has no view of Session other-"),
        ({"do": "ask", "by": "b", "frame": {"op": "ping"}}, "client b has not connected yet"),
        ({"do": "view", "state": {"seq": {"$at_most": 1}}}, "$at_most is no operator"),
    ],
)
async def test_a_step_that_cannot_be_done_ends_its_timeline_with_a_sentence(
    step: Map, sentence: str, autojump_clock: MockClock, tmp_path: Path
) -> None:
    wrong = await verdict(Liar, tmp_path, *FOLLOWED, step)
    assert wrong.outcome == "failed"
    assert sentence in wrong.reason


async def test_W10_a_frame_is_measured_in_bytes(autojump_clock: MockClock, tmp_path: Path) -> None:
    for letter, outcome in (("e", "passed"), ("北", "failed")):
        title = letter * 150
        create = {"op": "session.create", "session_id": "$s", "title": title}
        sized = await verdict(PromisesSmallFrames, tmp_path, {"do": "connect"}, {"do": "ask", "frame": create})
        assert (sized.outcome, sized.broken) == (outcome, "W10" if outcome == "failed" else "")
