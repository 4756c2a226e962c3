"""Chat Completions chunks to model events. No I/O: payloads of server-sent events in, events of `base` out.

The shape of a chunk is checked here, strictly where it matters and not at all elsewhere: compatible servers add
fields, leave fields out, and send null for nothing.
"""

import json
import re
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from turnwire.models.base import BlockDelta, BlockEnd, BlockStart, ModelEvent, StepEnd, Usage, clean_text
from turnwire.models.openai_errors import from_error_object, malformed

QUOTED_BYTES: Final = 80
"""How much of a chunk that cannot be read is shown."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class _Delta(Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


class _Choice(Struct):
    index: int | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None


class _TokenCounts(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _TokenCounts | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_REASONS: Final[dict[str, Literal["stop", "length", "content_filter"]]] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}
"""Why a model stopped; every other reason that is no failure is `stop`."""


class ChunkReader:
    """One answer being read. Only the first choice counts: no more than one is ever asked for.

    A run of text or of reasoning is one block, so an answer that thinks again in between has several.
    """

    def __init__(self) -> None:
        self.done = False
        """The service has said `[DONE]`."""
        self._blocks = 0
        self._kind: Literal["text", "reasoning"] | None = None
        self._half = ""
        self._reason: str | None = None
        self._usage: Usage | None = None

    @property
    def finished(self) -> bool:
        """The model has said why it stopped; only bookkeeping can follow."""
        return self._reason is not None

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one payload. Raises ModelError for error objects and for what is no chunk."""
        if payload.startswith(b"[DONE]"):
            self.done = True
            return []
        chunk = _parse(payload)
        if chunk.error:
            raise from_error_object(chunk.error)
        if chunk.usage is not None:
            self._usage = Usage(chunk.usage.prompt_tokens or 0, chunk.usage.completion_tokens or 0)
        for choice in chunk.choices or ():
            if not choice.index:
                return self._choice(choice)
        return []

    def end(self) -> list[ModelEvent]:
        """What ends the answer, or nothing when the model had not finished: then the stream was cut."""
        if self._reason is None:
            return []
        reason = _REASONS.get(self._reason, "stop")
        return [*self._close(), StepEnd(tuple(range(self._blocks)), reason=reason, usage=self._usage)]

    def _choice(self, choice: _Choice) -> list[ModelEvent]:
        events: list[ModelEvent] = []
        delta = choice.delta or _Delta()
        if delta.tool_calls or delta.function_call or choice.finish_reason in ("tool_calls", "function_call"):
            raise malformed("it calls tools, and was given none")
        if choice.finish_reason == "error":
            raise from_error_object("the model stopped with an error")
        # A service that sends both names sends the same text under both.
        events += self._say("reasoning", delta.reasoning_content or delta.reasoning)
        events += self._say("text", delta.content)
        events += self._say("text", delta.refusal)
        if choice.finish_reason:
            self._reason = choice.finish_reason
        return events

    def _say(self, kind: Literal["text", "reasoning"], text: str | None) -> list[ModelEvent]:
        if not text:
            return []
        events: list[ModelEvent] = []
        if kind != self._kind:
            events += self._close()
            events.append(BlockStart(self._blocks, kind))
            self._blocks += 1
            self._kind = kind
        if text := self._whole(text):
            events.append(BlockDelta(self._blocks - 1, text))
        return events

    def _close(self) -> list[ModelEvent]:
        if self._kind is None:
            return []
        block, half = self._blocks - 1, self._half
        self._kind, self._half = None, ""
        return [BlockDelta(block, clean_text(half)), BlockEnd(block)] if half else [BlockEnd(block)]

    def _whole(self, text: str) -> str:
        """`text` without surrogates: a pair that was split between two chunks is joined, a half one waits for it."""
        if not self._half and not _SURROGATE.search(text):
            return text
        text = (self._half + text).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return clean_text(text[: len(text) - len(self._half)])


def _parse(payload: bytes) -> _Chunk:
    try:
        return _decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        if b"\\u" not in payload:
            raise malformed(_quote(payload, error)) from error
    # msgspec refuses an escaped lone surrogate; the standard library lets it pass.
    try:
        return msgspec.convert(json.loads(payload), _Chunk)
    except (ValueError, RecursionError) as error:
        raise malformed(_quote(payload, error)) from error


def _quote(payload: bytes, error: Exception) -> str:
    return f"{error} in {payload[:QUOTED_BYTES].decode(errors='replace')!r}"
