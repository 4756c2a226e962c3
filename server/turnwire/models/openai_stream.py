"""Chat Completions chunks to model events. No I/O: payloads of server-sent events in, events of `base` out.

The shape of a chunk is checked here, strictly where it matters and not at all elsewhere: compatible servers add
fields, leave fields out, and send null for nothing. Which call a fragment of a call belongs to is `openai_calls`.
"""

from typing import Any, Final, Literal

from msgspec import Struct

from turnwire.models.base import ModelEvent, Usage
from turnwire.models.blocks import Blocks, StopReason
from turnwire.models.openai_calls import CallFragment, Calls
from turnwire.models.payloads import PayloadDecoder
from turnwire.models.service_errors import from_error_object, malformed


class _Piece(Struct):
    """Of a content that is a list; a piece that thinks holds pieces again."""

    type: str | None = None
    text: str | None = None
    thinking: "str | list[_Piece] | None" = None


class _Delta(Struct):
    content: str | list[_Piece] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallFragment] | None = None
    function_call: Any = None


class _TokenCounts(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Choice(Struct):
    index: int | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _TokenCounts | None = None


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: _TokenCounts | None = None
    error: Any = None
    object: Any = None
    """`error` where the whole chunk is an error object."""
    type: Any = None
    code: Any = None
    message: Any = None


_CHUNK: Final = PayloadDecoder(_Chunk)
_REASONS: Final[dict[str, StopReason]] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "sensitive": "content_filter",
}
"""Why a model stopped; every other reason that is no failure is `stop`, which with calls of tools is `tool_calls`."""

_FAILURES: Final = frozenset({"error", "network_error", "insufficient_system_resource"})
"""Reasons to stop that say that the service has failed."""


class ChunkReader:
    """One answer being read. Only the first choice counts: no more than one is ever asked for.

    A run of text or of reasoning is one block, so an answer that thinks again in between has several. A call of a tool
    is a block that ends with the answer, since fragments of parallel calls may come in any order.
    """

    def __init__(self) -> None:
        self.done = False
        """The service has said `[DONE]`."""
        self._blocks = Blocks()
        self._calls = Calls(self._blocks, self._end_run)
        self._run: tuple[Literal["text", "reasoning"], int] | None = None
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
        chunk = _CHUNK.decode(payload)
        if chunk.error:
            raise from_error_object(chunk.error)
        if chunk.object == "error":
            raise from_error_object({"type": chunk.type, "code": chunk.code, "message": chunk.message})
        for choice in chunk.choices or ():
            if not choice.index:
                self._choice(choice)
                break
        self._count(chunk.usage)
        return self._blocks.take()

    def end(self) -> list[ModelEvent]:
        """What ends the answer, or nothing when the model had not finished: then the stream was cut."""
        if self._reason is None:
            return []
        self._blocks.finish(_REASONS.get(self._reason, "stop"), self._usage)
        return self._blocks.take()

    def _choice(self, choice: _Choice) -> None:
        delta = choice.delta or _Delta()
        if delta.function_call:
            raise malformed("it calls tools in the old way, by function_call")
        if choice.finish_reason in _FAILURES:
            raise from_error_object({"code": choice.finish_reason, "message": f"it stopped by {choice.finish_reason}"})
        # A service that sends both names sends the same text under both.
        self._say("reasoning", delta.reasoning_content or delta.reasoning)
        self._say_content(delta.content)
        self._say("text", delta.refusal)
        self._count(choice.usage)
        for fragment in delta.tool_calls or ():
            self._calls.add(fragment)
        if choice.finish_reason:
            self._finish(choice.finish_reason)

    def _finish(self, reason: str) -> None:
        self._calls.check()
        if reason in ("tool_calls", "function_call") and not self._blocks.tools:
            raise malformed("the model stopped to call a tool, and called none")
        self._reason = reason

    def _count(self, counts: _TokenCounts | None) -> None:
        if counts is not None:
            self._usage = Usage(counts.prompt_tokens or 0, counts.completion_tokens or 0)

    def _say_content(self, content: str | list[_Piece] | None) -> None:
        if not isinstance(content, list):
            self._say("text", content)
            return
        for piece in content:
            if piece.type == "text":
                self._say("text", piece.text)
            elif piece.type == "thinking":
                self._say("reasoning", _thought(piece.thinking))

    def _say(self, kind: Literal["text", "reasoning"], text: str | None) -> None:
        if not text:
            return
        if self._run is None or self._run[0] != kind:
            self._end_run()
            self._run = (kind, self._blocks.start(kind))
        self._blocks.append(self._run[1], text)

    def _end_run(self) -> None:
        if self._run is not None:
            self._blocks.close(self._run[1])
            self._run = None


def _thought(thinking: str | list[_Piece] | None) -> str:
    return "".join(piece.text or "" for piece in thinking) if isinstance(thinking, list) else thinking or ""
