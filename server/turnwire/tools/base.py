"""What a Tool is to the session loop: a name, a schema, a rule of approval, and one call at a time (P4, P5).

The loop owns states, approvals, storage and cancellation; here are inputs, results and their limits.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Literal

from msgspec import Struct

from turnwire_protocol.mutations import FileChange

Approval = Literal["never", "ask"]

INPUT_BYTES = 1024 * 1024
"""The most JSON bytes that the tool inputs of one Step may have together (Z2, Z3)."""

OUTPUT_BYTES = 256 * 1024
"""The most JSON bytes of a result that are kept and given to the model (Z3)."""

PATCH_BYTES = 64 * 1024
"""The most JSON bytes of patches that one Turn's `file_diff` carries (L5, Z4)."""


class ToolInputError(Exception):
    """The input is not JSON, or does not fit the tool's schema; the sentence says what is wrong and where (P5)."""


class ToolFailure(Exception):
    """Raised by a tool to fail with a sentence for the model and the user."""


class ToolResult(Struct, kw_only=True, frozen=True):
    """What came of a call: `output` is plain JSON within OUTPUT_BYTES, `error` a sentence when it failed."""

    failed: bool
    output: Any = None
    error: str | None = None


class ToolContext(Struct, kw_only=True, frozen=True):
    """What a call may know of its surroundings. `changed` reports a file that the tool has changed (L5).

    `changed(path, before, after)`: the path as users see it, and the whole text before and after; None where there is
    none. It is called from any thread, and by a call that was given up perhaps only after its Turn has ended.
    """

    session_id: str
    turn_id: str
    tool_call_id: str
    changed: Callable[[str, str | None, str | None], None]


class Question(Struct, kw_only=True, frozen=True):
    """What a tool that asks the user wants to know: `questions` as in the wire's question request."""

    questions: tuple[dict[str, Any], ...]


class Tool(Struct, kw_only=True, frozen=True):
    """One callable tool.

    `parse` turns the finished input text into plain JSON that fits the schema; raises ToolInputError. `run` gives plain
    JSON; whatever it raises fails the call. `question` is set instead of `run` for a tool that only asks the user: it
    turns the parsed input into the questions, and the answers become the output. `timeout_seconds` bounds the run, or
    how long the user has for the answers.
    """

    name: str
    description: str
    input_schema: dict[str, Any]
    approval: Approval
    timeout_seconds: float
    parse: Callable[[str], Any]
    run: Callable[[Any, ToolContext], Awaitable[Any]] | None = None
    question: Callable[[Any], Question] | None = None


class FileDiffSummary(Struct, frozen=True):
    """All file changes of one Turn, with patches within PATCH_BYTES (L5)."""

    files: tuple[FileChange, ...]
    additions: int
    deletions: int
