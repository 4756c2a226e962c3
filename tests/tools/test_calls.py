"""One call of a tool: whatever the tool does, there is one result within its limits."""

import logging
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from trio.testing import MockClock

from turnwire.tools.base import OUTPUT_BYTES, Tool, ToolContext, ToolFailure, ToolResult
from turnwire.tools.calls import ERROR_CHARACTERS, call
from turnwire.tools.functions import THREADS
from turnwire.tools.plain import fitting_prefix, json_size
from turnwire.tools.questions import ask_user
from turnwire.tools.registry import tool

from .conftest import Use, context_of

PATIENCE_SECONDS = 30.0
"""How long a test waits for something that must come."""


def returning(value: Any) -> Tool:
    @tool
    async def give() -> Any:
        """Gives."""
        return value

    return give


def raising(error: BaseException) -> Tool:
    @tool
    def fail() -> None:
        """Fails."""
        raise error

    return fail


class Colour(Enum):
    RED = "red"


class Point(Struct):
    x: int
    at: datetime


@dataclass
class Pair:
    left: tuple[int, ...]
    right: bytes


@pytest.mark.parametrize(
    ("value", "output"),
    [
        (None, None),
        ("text", "text"),
        ((1, 2.5, True), [1, 2.5, True]),
        ({1: "a", "b": {3}}, {"1": "a", "b": [3]}),
        (Point(1, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)), {"x": 1, "at": "2026-01-02T03:04:05Z"}),
        ([Pair((1, 2), b"\xff")], [{"left": [1, 2], "right": "/w=="}]),
        (Colour.RED, "red"),
        (Decimal("1.10"), "1.10"),
        (UUID(int=0), "00000000-0000-0000-0000-000000000000"),
        ({"a\ud800": ["\udfff!"]}, {"a\ufffd": ["\ufffd!"]}),
        ({"success": True}, {"success": True}),
        ({"success": 0}, {"success": 0}),
    ],
)
async def test_P5_a_result_becomes_plain_json(value: Any, output: Any, use: Use) -> None:
    result = await use(returning(value))
    assert result == ToolResult(failed=False, output=output)
    assert msgspec.json.decode(msgspec.json.encode(result.output)) == output


def _nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def _cycle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (object(), "the result is not JSON: Encoding objects of type object is unsupported"),
        ({(1, 2): 3}, "the result is not JSON: Only dicts"),
        ({"a": [float("nan")]}, "result.a[0]: the number is not finite"),
        (float("-inf"), "result: the number is not finite"),
        ([2**70], "result[0]: the integer does not fit in 53 bits"),
        ([2**53], "result[0]: the integer does not fit in 53 bits"),
        (_nested(33), "the result nests deeper than 32 levels"),
        (_nested(100_000), "the result nests deeper than 32 levels"),
        (_cycle(), "the result nests deeper than 32 levels, or holds itself"),
    ],
    ids=["object", "key", "nan", "inf", "very large", "large", "deep", "very deep", "cycle"],
)
async def test_P5_what_json_cannot_say_fails_the_call(value: Any, sentence: str, use: Use) -> None:
    result = await use(returning(value))
    assert result.failed
    assert result.output is None
    assert sentence in result.error


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({"success": False}, "the tool says that it did not succeed"),
        ({"success": False, "error": "no such hut", "message": "other"}, "no such hut"),
        ({"success": False, "error": {"code": 1}, "message": "closed"}, "closed"),
        ({"success": False, "error": " "}, "the tool says that it did not succeed"),
    ],
)
async def test_P5_success_false_is_a_failure_that_keeps_its_output(value: Any, sentence: str, use: Use) -> None:
    assert await use(returning(value)) == ToolResult(failed=True, output=value, error=sentence)


class Odd(Exception):
    pass


class Panic(BaseException):
    """What extension modules raise that trust nobody to go on."""


class Speechless(Exception):
    def __str__(self) -> str:
        raise Odd


class SpeechlessFailure(Speechless, ToolFailure):
    pass


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ToolFailure("the hut is closed"), "the hut is closed"),
        (ToolFailure(), "the tool failed and did not say why"),
        (ToolFailure("a\ud800"), "a\ufffd"),
        (Odd("broken"), "Odd: broken"),
        (Odd(), "Odd"),
        (SystemExit(3), "SystemExit: 3"),
        (Panic("from below"), "Panic: from below"),
        (BaseExceptionGroup("nursery", [Panic("one"), Odd("two")]), "BaseExceptionGroup: nursery (2 sub-exceptions)"),
        (Speechless(), "Speechless: and it failed to say why"),
        (SpeechlessFailure(), "and it failed to say why"),
        (ExceptionGroup("nursery", [ExceptionGroup("inner", [ToolFailure("deep down")])]), "deep down"),
        (Odd("x" * 10_000), "Odd: " + "x" * (ERROR_CHARACTERS - 6) + "…"),
    ],
)
async def test_P5_whatever_a_tool_raises_fails_the_call(error: BaseException, sentence: str, use: Use) -> None:
    assert await use(raising(error)) == ToolResult(failed=True, error=sentence)


async def test_P5_only_a_fault_of_the_tool_is_logged_with_its_traceback(
    use: Use, caplog: pytest.LogCaptureFixture
) -> None:
    await use(raising(ToolFailure("meant")))
    assert not caplog.records
    await use(raising(Odd("not meant")))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[0] is Odd
    assert "c1" in record.getMessage()


async def test_P5_an_async_tool_that_takes_too_long_is_given_up(use: Use, autojump_clock: MockClock) -> None:
    @tool(timeout_seconds=2.5)
    async def dawdle() -> None:
        """Takes its time."""
        await trio.sleep_forever()

    start = trio.current_time()
    result = await use(dawdle)
    assert trio.current_time() - start == pytest.approx(2.5)
    assert result == ToolResult(failed=True, error="the tool took longer than 2.5 seconds and was given up")


async def test_P5_a_tool_that_is_just_in_time_has_succeeded(use: Use, autojump_clock: MockClock) -> None:
    @tool(timeout_seconds=2.5)
    async def hurry() -> str:
        """Is in time."""
        await trio.sleep(2.4)
        return "done"

    assert await use(hurry) == ToolResult(failed=False, output="done")


async def test_T3_a_sync_tool_that_hangs_holds_nobody(context: ToolContext) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @tool
    def hang() -> None:
        """Hangs."""
        begun.set()
        go_on.wait(PATIENCE_SECONDS)
        ended.set()

    try:
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(call, hang, {}, context)
                await trio.to_thread.run_sync(begun.wait)
                nursery.cancel_scope.cancel()
        assert not ended.is_set()
    finally:
        go_on.set()
    await trio.to_thread.run_sync(ended.wait)  # what was given up works on to its end


async def test_T3_hanging_tools_leave_the_threads_of_others_alone(context: ToolContext) -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()

    @tool
    def hang() -> None:
        """Hangs."""
        begun.release()
        go_on.wait(PATIENCE_SECONDS)

    try:
        with trio.fail_after(PATIENCE_SECONDS):
            async with trio.open_nursery() as nursery:
                for _ in range(2 * THREADS):
                    nursery.start_soon(call, hang, {}, context)
                for _ in range(THREADS):
                    await trio.to_thread.run_sync(begun.acquire, abandon_on_cancel=True)
                waiting = begun.acquire(blocking=False)
                nursery.cancel_scope.cancel()
    finally:
        go_on.set()
        begun.release(THREADS)
    assert not waiting, f"more than {THREADS} tools ran at once"


async def test_T3_a_stop_passes_through_a_tool_that_catches_everything(context: ToolContext) -> None:
    @tool
    async def stubborn() -> str:
        """Catches what it can."""
        try:
            await trio.sleep_forever()
        except Exception:  # noqa: BLE001 - that is the point
            return "caught"
        return "woken"

    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await call(stubborn, {}, context))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert nursery.cancel_scope.cancelled_caught
    assert results == []


@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), BaseExceptionGroup("nursery", [Odd(), KeyboardInterrupt()])],
)
async def test_P5_what_is_meant_for_the_server_passes_through(error: BaseException, context: ToolContext) -> None:
    @tool
    async def interrupted() -> None:
        """Is interrupted."""
        raise error

    with pytest.raises(BaseException) as caught:  # noqa: PT011 - this one, and no other
        await call(interrupted, {}, context)
    if isinstance(error, BaseExceptionGroup):
        assert isinstance(caught.value, BaseExceptionGroup)
        assert caught.value.exceptions == error.exceptions[1:]
    else:
        assert caught.value is error


async def test_T3_a_stop_passes_through_the_nursery_of_a_tool_that_fails_meanwhile(
    context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def torn() -> None:
        """Fails as it is stopped."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                raise Odd

    results: list[ToolResult] = []

    async def run() -> None:
        results.append(await call(torn, {}, context))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert nursery.cancel_scope.cancelled_caught
    assert results == []
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[0] is Odd


async def test_L5_a_tool_reports_changes_from_its_thread() -> None:
    changes: list[Any] = []

    @tool
    def write(context: ToolContext) -> None:
        """Writes."""
        context.changed("a", None, "x")

    await call(write, {}, context_of(changes))
    assert changes == [("a", None, "x")]


async def test_P7_a_tool_that_only_asks_cannot_be_called(context: ToolContext) -> None:
    with pytest.raises(ValueError, match="asks the user"):
        await call(ask_user, {}, context)


# -------------------------------------------------------------------------------------------------------------- sizes


@pytest.mark.parametrize("text", ["x" * OUTPUT_BYTES, "\x01" * OUTPUT_BYTES, "\U0001f680" * OUTPUT_BYTES])
async def test_Z3_text_that_is_too_large_is_cut_and_says_so(text: str, use: Use) -> None:
    result = await use(returning(text))
    assert not result.failed
    assert OUTPUT_BYTES - 100 < json_size(result.output) <= OUTPUT_BYTES
    kept, _, marker = result.output.rpartition("\n[truncated: ")
    assert text.startswith(kept)
    assert marker == f"{len(text) - len(kept):,} of {len(text):,} characters are left out here]"


async def test_Z3_text_that_just_fits_is_whole(use: Use) -> None:
    text = "x" * (OUTPUT_BYTES - 2)
    assert (await use(returning(text))).output == text


async def test_Z3_a_structure_that_is_too_large_fails_with_its_size(use: Use) -> None:
    result = await use(returning(["x" * OUTPUT_BYTES]))
    assert result == ToolResult(
        failed=True, error="the result is 262,148 bytes of JSON, more than the 262,144 that are kept: ask for less"
    )


async def test_Z3_the_size_counts_text_as_it_is_sent(use: Use) -> None:
    result = await use(returning(["\ud800" * (OUTPUT_BYTES // 3)]))
    assert result.failed
    assert result.error.startswith("the result is 262,14")


async def test_Z3_a_failure_that_is_too_large_keeps_its_sentence(use: Use) -> None:
    result = await use(returning({"success": False, "error": "closed", "log": "x" * OUTPUT_BYTES}))
    assert result.failed
    assert result.output is None
    assert result.error.startswith("closed (the result is 262,")


@given(st.text(alphabet='ab"\\\n\x01ü\U0001f680'), st.integers(-1, 50))
def test_Z3_a_fitting_prefix_is_the_longest_that_fits(text: str, size: int) -> None:
    prefix = fitting_prefix(text, size)
    assert text.startswith(prefix)
    assert json_size(prefix) - 2 <= max(size, 0)
    if len(prefix) < len(text):
        assert json_size(text[: len(prefix) + 1]) - 2 > size
