"""One call of a tool, from checked input to a result within its limits (P5, Z3).

Whatever the tool does, there is a `ToolResult`: only cancellation passes through. When a call may begin, what it is
called in storage and who may stop it is the session loop's.
"""

import logging
from functools import partial
from typing import Any, Final

import trio

from turnwire.extensions import fault_of
from turnwire.models.base import clean_text
from turnwire.tools.base import OUTPUT_BYTES, Tool, ToolContext, ToolFailure, ToolResult
from turnwire.tools.plain import NotPlain, builtins_of, fitting_prefix, json_size, plain

ERROR_CHARACTERS: Final = 4_000
"""How much of a failure's sentence is kept."""

_log = logging.getLogger(__name__)


async def call(tool: Tool, input: Any, context: ToolContext) -> ToolResult:
    """Runs the tool once on an input that its `parse` gave.

    It has failed when it raises (a ToolFailure with its own sentence, anything else with type and message, logged),
    takes longer than its `timeout_seconds`, returns `{"success": false}` (with its `error` or `message` as the
    sentence, and the output kept), or returns what JSON cannot say. Text beyond OUTPUT_BYTES is cut, and ends by
    saying so; any other result beyond it is a failure that names the size.

    Raises ValueError for a tool that only asks the user. What is meant for the server passes through: trio.Cancelled,
    KeyboardInterrupt.
    """
    if tool.run is None:
        raise ValueError(f"the tool {tool.name} asks the user and has nothing to run")
    try:
        with trio.move_on_after(tool.timeout_seconds) as scope:
            value = await tool.run(input, context)
    except BaseException as error:  # noqa: BLE001 - it may raise anything; what is not its own is raised again
        return _raised(tool, context, fault_of(error, partial(_raised, tool, context)))
    if scope.cancelled_caught:
        return _failure(f"the tool took longer than {tool.timeout_seconds:g} seconds and was given up")
    try:
        return _within_limits(builtins_of(value))
    except NotPlain as error:
        return _failure(str(error))


def _raised(tool: Tool, context: ToolContext, error: BaseException) -> ToolResult:
    if isinstance(error, ToolFailure):
        return _failure(_said(error) or "the tool failed and did not say why")
    _log.error(
        "the tool %(tool)s failed in call %(tool_call_id)s",
        {"tool": tool.name, "tool_call_id": context.tool_call_id},
        exc_info=error,
    )
    name, message = type(error).__name__, _said(error)
    return _failure(f"{name}: {message}" if message else name)


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever it wanted to say, it has failed to
        return "and it failed to say why"


def _within_limits(builtins: Any) -> ToolResult:
    """Measures first: what is too large is not worth the slower check of all that is in it. Raises NotPlain."""
    said_no = isinstance(builtins, dict) and builtins.get("success") is False
    if isinstance(builtins, str):
        return ToolResult(failed=False, output=_fitting(clean_text(builtins)))
    size = _size_of(builtins)
    if size > OUTPUT_BYTES:
        sentence = f"the result is {size:,} bytes of JSON, more than the {OUTPUT_BYTES:,} that are kept: ask for less"
        return _failure(f"{_refusal(builtins)} ({sentence})" if said_no else sentence)
    output = plain(builtins)
    if said_no:
        return _failure(_refusal(output), output)
    return ToolResult(failed=False, output=output)


def _size_of(builtins: Any) -> int:
    try:
        return json_size(builtins)
    except (ValueError, OverflowError, RecursionError):
        return json_size(plain(builtins))  # half a character is mended there, anything else refused


def _fitting(text: str) -> str:
    return text if json_size(text) <= OUTPUT_BYTES else _truncated(text)


def _truncated(text: str) -> str:
    def marker(kept: int) -> str:
        return f"\n[truncated: {len(text) - kept:,} of {len(text):,} characters are left out here]"

    kept = fitting_prefix(text, OUTPUT_BYTES - json_size(marker(0)))
    return kept + marker(len(kept))


def _refusal(output: dict[str, Any]) -> str:
    for field in ("error", "message"):
        sentence = output.get(field)
        if isinstance(sentence, str) and sentence.strip():
            return sentence
    return "the tool says that it did not succeed"


def _failure(sentence: str, output: Any = None) -> ToolResult:
    sentence = clean_text(sentence)
    if len(sentence) > ERROR_CHARACTERS:
        sentence = sentence[: ERROR_CHARACTERS - 1] + "…"
    return ToolResult(failed=True, output=output, error=sentence)
