"""The provider interface: what the session loop asks of a model, and the events that it gets back.

A provider turns one `ModelRequest` into one ordered stream of events: one model call, one Step. It keeps no state
between calls, assigns no ids and never retries: the loop owns ids, storage and retries (T5).

The grammar of a stream: for every block `BlockStart`, any number of `BlockDelta`, `BlockEnd`; blocks may be
interleaved (E5); at last exactly one `StepEnd`, which names the blocks in the order of their starts, so that the loop
can validate what it has assembled (S2). A failure is a `ModelError`. A stream that ends without `StepEnd` was cut: the
provider just ends, and `timeouts.with_timeouts`, through which every call is read, makes it a `cut_stream` failure.
"""

import re
from collections.abc import AsyncGenerator
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

_SURROGATES = re.compile("[\ud800-\udfff]")

ErrorCode: TypeAlias = Literal[
    "timeout",
    "connection",
    "rate_limited",
    "overloaded",
    "auth",
    "invalid_request",
    "context_length",
    "content_filter",
    "cut_stream",
    "malformed_stream",
    "internal",
]

RETRYABLE: frozenset[str] = frozenset(
    {"timeout", "connection", "rate_limited", "overloaded", "cut_stream", "malformed_stream", "internal"}
)
"""Codes that a second attempt may cure, unless the provider says otherwise."""


class ModelError(Exception):
    """A model call that failed, classified (T5).

    `code` is stable and goes to clients; `message` is a sentence for people, without secrets; `retry_after_ms` is the
    provider's own wish, if it stated one.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        retryable: bool | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code: ErrorCode = code
        self.message = message
        self.retryable = code in RETRYABLE if retryable is None else retryable
        self.retry_after_ms = retry_after_ms


# ----------------------------------------------------------------------------------------------------------- request


class TextContent(Struct, frozen=True, tag="text", tag_field="type"):
    text: str


class FileContent(Struct, frozen=True, tag="file", tag_field="type"):
    url: str
    media_type: str
    filename: str | None = None


class ReasoningContent(Struct, frozen=True, tag="reasoning", tag_field="type"):
    """What the model thought earlier; a provider that may not be told leaves it out."""

    text: str


class ToolCallContent(Struct, frozen=True, tag="tool_call", tag_field="type"):
    """A call that the model made; `input_json` is its input as JSON text."""

    tool_call_id: str
    tool_name: str
    input_json: str


class ToolResultContent(Struct, frozen=True, tag="tool_result", tag_field="type"):
    """What came of a call: JSON text, or a sentence where it failed."""

    tool_call_id: str
    tool_name: str
    output: str
    failed: bool = False


Content: TypeAlias = TextContent | FileContent | ReasoningContent | ToolCallContent | ToolResultContent


class ModelMessage(Struct, frozen=True):
    """One message of the model's input, in the order in which the model shall read them.

    Tool calls stand in `assistant` messages, their results in the `tool` message right after.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: tuple[Content, ...]

    @property
    def text(self) -> str:
        """All text of the message, joined."""
        return "".join(part.text for part in self.content if isinstance(part, TextContent))


class ToolSpec(Struct, frozen=True):
    """A tool that the model may call: its name, what it is for, and the JSON Schema of its input (an object)."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ModelRequest(Struct, kw_only=True, frozen=True):
    """One model call. `attempt` counts from 1 within a Step; `key` is stable over the attempts of one Step.

    `kind` says what the answer is for: a Turn, or the Session's title or a summary, which no user waits for.
    """

    model: str | None
    messages: tuple[ModelMessage, ...]
    key: str
    attempt: int = 1
    tools: tuple[ToolSpec, ...] = ()
    kind: Literal["turn", "title", "compaction"] = "turn"


# ------------------------------------------------------------------------------------------------------------ events


class BlockStart(Struct, frozen=True):
    """A block begins; `block` is unique within the stream. A `tool` block is one call: its deltas are input JSON.

    `tool_call_id` is the provider's own id for the call, needed to give the result back; unique within the request's
    history only if the provider made it so.
    """

    block: int
    kind: Literal["text", "reasoning", "tool"]
    tool_call_id: str | None = None
    tool_name: str | None = None


class BlockDelta(Struct, frozen=True):
    """Text to append to a block: whole characters, never a lone surrogate (see `clean_text`)."""

    block: int
    text: str


class BlockEnd(Struct, frozen=True):
    block: int


class Usage(Struct, frozen=True):
    """Tokens that the provider says it used."""

    input_tokens: int
    output_tokens: int


class StepEnd(Struct, frozen=True):
    """The model has finished; `blocks` are all blocks in the order of their starts (S2).

    `reason` as the service says: after `content_filter` the call counts as failed with that code, after `length` the
    answer stands, with an `error` Part that says that it is not complete.
    """

    blocks: tuple[int, ...]
    reason: Literal["stop", "length", "content_filter", "tool_calls"] = "stop"
    usage: Usage | None = None


ModelEvent: TypeAlias = BlockStart | BlockDelta | BlockEnd | StepEnd


class ModelProvider(Protocol):
    """One model service (or several models of one service)."""

    name: str

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, Any]:
        """Starts one model call when iterated. Raises `ModelError` for every failure of the model or the way to it.

        The caller iterates in one task and closes the generator; closing or cancelling it ends the upstream request
        at once. It may hold a nursery or a cancel scope open while it yields. Whatever else it raises fails the call as
        `internal`, and nothing beyond it.
        """

    async def aclose(self) -> None:
        """Lets go of the connections that are kept between calls. Idempotent; no call may be running."""


def clean_text(text: str) -> str:
    """`text` with every lone surrogate replaced by U+FFFD, so that it can be stored and sent."""
    return _SURROGATES.sub("\ufffd", text)
