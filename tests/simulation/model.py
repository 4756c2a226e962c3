"""A model that says, calls, breaks and hangs at random, and remembers what it was asked and what it said."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from random import Random
from typing import Any, Literal, get_args

import trio

from turnwire.models.base import (
    BlockDelta,
    BlockEnd,
    BlockStart,
    ErrorCode,
    ModelError,
    ModelEvent,
    ModelRequest,
    StepEnd,
    ToolCallContent,
    ToolResultContent,
)

Happening = ModelEvent | ModelError | Exception | Literal["hang"] | object
Plan = list[tuple[float, Happening]]

CODES: tuple[ErrorCode, ...] = get_args(ErrorCode)
PIECES = ("a ", "word ", "é", "漢字 ", "🙂", '"q" ', "</x>", "\n")
PACES = ((0.0,), (0.0, 0.0, 0.02, 0.1), (0.02, 0.1, 0.4))
"""From which delays, in seconds, a call takes those of its events."""

TOOL_INPUTS = {
    "echo": '{"n":1}',
    "slow": '{"seconds":0.7}',
    "broken": "{}",
    "refusing": "{}",
    "stuck": "{}",
    "danger": '{"rm":"-rf"}',
    "ask_user": '{"questions":[{"question_id":"color","question":"Which?"}]}',
    "confused": "{}",
    "unknown_tool": "{}",
}


class ModelBug(Exception):
    """A fault of the provider's own code."""


class Call:
    """One model call: what was asked, and what was said so far."""

    def __init__(self, request: ModelRequest, turn_id: str) -> None:
        self.turn_id = turn_id
        self.key = request.key
        self.attempt = request.attempt
        self.at = trio.current_time()
        self.messages = request.messages
        self.user_texts = [message.text for message in request.messages if message.role == "user"]
        self.said: dict[int, str] = {}
        """Text and reasoning by block, in the order of their first text."""
        self.tools = 0
        self.cut_short = False
        """Whether it ended because it had reached its limit."""
        self.complete = False
        """Whether the whole of a well-formed Step was taken from the model."""

    @property
    def pairs_calls_with_results(self) -> bool:
        """Every tool call of the history has its result right after it."""
        calls: list[str] = []
        for message in self.messages:
            results = [part.tool_call_id for part in message.content if isinstance(part, ToolResultContent)]
            if calls != results:
                return False
            calls = [part.tool_call_id for part in message.content if isinstance(part, ToolCallContent)]
        return not calls


class Model:
    """Plays the next plan for each kind of call; once it is `calm`, every call is answered plainly."""

    name = "simulated"

    def __init__(self, next_plan: Callable[[str], Plan], running_turn: Callable[[], str]) -> None:
        self._next_plan = next_plan
        self._running_turn = running_turn
        self.calls: list[Call] = []
        self.running = 0
        self.calm = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, Any]:
        call = Call(request, self._running_turn())
        if request.kind == "turn":
            self.calls.append(call)
        plan = calm_plan() if self.calm else self._next_plan(request.kind)
        self.running += 1
        try:
            async with aclosing(play(plan, call)) as events:
                async for event in events:
                    yield event
        finally:
            self.running -= 1

    async def aclose(self) -> None:
        """Nothing is kept between calls."""


async def play(plan: Plan, call: Call) -> AsyncGenerator[ModelEvent, None]:
    """Does what the plan says, and writes down in `call` what came of it."""
    kinds: dict[int, str] = {}
    for delay, what in plan:
        if delay:
            await trio.sleep(delay)
        if what == "hang":
            await trio.sleep_forever()
        if isinstance(what, Exception):
            raise what
        match what:
            case BlockStart():
                kinds[what.block] = what.kind
                call.tools += what.kind == "tool"
            case BlockDelta() if kinds.get(what.block) in ("text", "reasoning") and what.text:
                call.said[what.block] = call.said.get(what.block, "") + what.text
            case StepEnd():
                call.cut_short = what.reason == "length"
        yield what  # type: ignore[misc]  # an unknown event is meant to arrive
    call.complete = True


def calm_plan() -> Plan:
    return [(0.0, BlockStart(0, "text")), (0.0, BlockDelta(0, "calm")), (0.0, BlockEnd(0)), (0.0, StepEnd((0,)))]


def random_plan(random: Random) -> Plan:
    """Mostly a sound Step, at times one that is broken somewhere."""
    events = sound_step(random)
    kind = random.choices(("sound", "error", "cut", "hang", "malformed", "bug"), (70, 16, 5, 3, 4, 2))[0]
    place = random.randrange(len(events))
    happenings: list[Happening] = list(events)
    if kind == "error":
        code = random.choice(CODES)
        wish = random.choice((None, None, 0, 700))
        happenings[place:] = [ModelError(code, f"simulated {code}", retry_after_ms=wish)]
    elif kind == "cut":
        happenings[place:] = []
    elif kind == "hang":
        happenings[place:] = ["hang"]
    elif kind == "bug":
        happenings[place:] = [ModelBug("simulated")]
    elif kind == "malformed":
        happenings = malformed(random, happenings)
    pace = random.choice(PACES)
    return [(random.choice(pace), happening) for happening in happenings]


def background_plan(random: Random) -> Plan:
    """A title or a summary, which as often as not is refused for good."""
    return random_plan(random) if random.random() < 0.6 else [(0.1, ModelError("invalid_request", "simulated"))]


def malformed(random: Random, events: list[Happening]) -> list[Happening]:
    """The Step with a fault in its grammar."""
    fault = random.randrange(6)
    if fault == 0:
        return [*events[:-1], StepEnd(blocks=(7, 8))]
    if fault == 1:
        return [*events, events[-1]]
    if fault == 2:
        return [BlockDelta(9, "of nothing"), *events]
    if fault == 3:
        return [*events[:-1], BlockStart(0, "text"), BlockStart(0, "text"), events[-1]]
    if fault == 4:
        return [*events[:-1], BlockStart(5, "tool"), events[-1]]
    return [*events[:-1], object(), events[-1]]


def sound_step(random: Random) -> list[ModelEvent]:
    """Blocks of every kind, one after the other or interleaved, and their end."""
    kinds = random.choices(
        (["text"], ["reasoning", "text"], ["tool"], ["text", "tool"], ["tool", "tool"], ["text", "text"], []),
        (14, 6, 24, 22, 22, 4, 5),
    )[0]
    streams = [list(_block(random, number, kind)) for number, kind in enumerate(kinds)]
    interleaved = random.random() < 0.3
    events: list[ModelEvent] = []
    while any(streams):
        stream = random.choice([s for s in streams if s]) if interleaved else next(s for s in streams if s)
        events.append(stream.pop(0))
    starts = tuple(event.block for event in events if isinstance(event, BlockStart))
    return [*events, StepEnd(blocks=starts, reason="tool_calls" if "tool" in kinds else "stop")]


def _block(random: Random, number: int, kind: Any) -> Iterator[ModelEvent]:
    if kind == "tool":
        name = random.choices(tuple(TOOL_INPUTS), (2, 6, 1, 1, 5, 6, 2, 1, 1))[0]
        text = TOOL_INPUTS[name]
        if random.random() < 0.1:
            text = random.choice(("", "{", "nonsense"))
        yield BlockStart(number, "tool", tool_call_id=f"theirs-{number}", tool_name=name)
        middle = random.randint(0, len(text))
        yield BlockDelta(number, text[:middle])
        yield BlockDelta(number, text[middle:])
    else:
        yield BlockStart(number, kind)
        for _ in range(random.randint(0, 3)):
            yield BlockDelta(number, random.choice(PIECES))
    yield BlockEnd(number)
