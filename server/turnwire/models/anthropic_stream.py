"""Events of the Messages API to model events. No I/O: payloads of server-sent events in, events of `base` out.

Pings, signatures, citations, and blocks and events of kinds that are not known are skipped, as the API asks of its
readers: none of them is progress (K7).
"""

import json
from typing import Any, Final

from msgspec import Struct

from turnwire.models.base import ModelEvent, Usage
from turnwire.models.blocks import BlockKind, Blocks, StopReason
from turnwire.models.payloads import PayloadDecoder
from turnwire.models.service_errors import from_error_object, malformed


class _ContentBlock(Struct):
    type: str
    id: str | None = None
    name: str | None = None
    input: Any = None
    text: str | None = None
    thinking: str | None = None


class _Delta(Struct):
    """Of a block, or of the whole message: then it says why the model stopped."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _TokenCounts(Struct):
    """Cumulative; what is read from and written to the cache is not in `input_tokens`."""

    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None


class _Message(Struct):
    usage: _TokenCounts | None = None


class _Event(Struct):
    type: str
    index: int | None = None
    message: _Message | None = None
    content_block: _ContentBlock | None = None
    delta: _Delta | None = None
    usage: _TokenCounts | None = None
    error: Any = None


_EVENT: Final = PayloadDecoder(_Event)
_KINDS: Final[dict[str, BlockKind]] = {"text": "text", "thinking": "reasoning", "tool_use": "tool"}
_REASONS: Final[dict[str, StopReason]] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""Why a model stopped; every other reason is `stop`, which with calls of tools is `tool_calls`."""


class _Open:
    """A block of the API that has begun; `block` is its number here, once it has one."""

    def __init__(self, start: _ContentBlock) -> None:
        self.kind = _KINDS.get(start.type)
        self.start = start
        self.block: int | None = None


class EventReader:
    """One answer being read. A block of text or reasoning begins with its first text, a call of a tool at once."""

    def __init__(self) -> None:
        self.done = False
        """The service has said `message_stop`."""
        self._blocks = Blocks()
        self._open: dict[int, _Open] = {}
        self._reason: str | None = None
        self._counts: dict[str, int] = {}

    @property
    def finished(self) -> bool:
        """The model has said why it stopped; only bookkeeping can follow."""
        return self._reason is not None

    def feed(self, payload: bytes) -> list[ModelEvent]:
        """The events of one payload. Raises ModelError for error events and for what is no event."""
        event = _EVENT.decode(payload)
        match event.type:
            case "error":
                raise from_error_object(event.error)
            case "message_start":
                self._count(event.message.usage if event.message is not None else None)
            case "content_block_start":
                self._start(_index(event), event.content_block)
            case "content_block_delta":
                self._append(self._block(event), event.delta or _Delta())
            case "content_block_stop":
                self._stop(self._block(event))
                del self._open[_index(event)]
            case "message_delta":
                self._count(event.usage)
                self._finish(event.delta)
            case "message_stop":
                self.done = True
        return self._blocks.take()

    def end(self) -> list[ModelEvent]:
        """What ends the answer, or nothing when the model had not finished: then the stream was cut."""
        if self._reason is None:
            return []
        self._blocks.finish(_REASONS.get(self._reason, "stop"), self._usage())
        return self._blocks.take()

    def _start(self, index: int, content: _ContentBlock | None) -> None:
        if content is None or index in self._open:
            raise malformed(f"content block {index} starts without content or twice")
        opened = self._open[index] = _Open(content)
        if opened.kind == "tool":
            if not content.name:
                raise malformed("it calls a tool without a name")
            opened.block = self._blocks.start("tool", tool_call_id=content.id, tool_name=content.name)
        else:
            self._say(opened, content.text if opened.kind == "text" else content.thinking)

    def _block(self, event: _Event) -> _Open:
        opened = self._open.get(_index(event))
        if opened is None:
            raise malformed(f"{event.type} of content block {event.index}, which is not open")
        return opened

    def _append(self, opened: _Open, delta: _Delta) -> None:
        match opened.kind, delta.type:
            case "text", "text_delta":
                self._say(opened, delta.text)
            case "reasoning", "thinking_delta":
                self._say(opened, delta.thinking)
            case "tool", "input_json_delta":
                self._say(opened, delta.partial_json)

    def _say(self, opened: _Open, text: str | None) -> None:
        if not text or opened.kind is None:
            return
        if opened.block is None:
            opened.block = self._blocks.start(opened.kind)
        self._blocks.append(opened.block, text)

    def _stop(self, opened: _Open) -> None:
        if opened.block is None:
            return
        if opened.kind == "tool" and self._blocks.is_empty(opened.block):
            if not opened.start.input:
                return  # empty or cut off: why the model stopped will tell, at the end
            self._blocks.append(opened.block, json.dumps(opened.start.input))
        self._blocks.close(opened.block)

    def _finish(self, delta: _Delta | None) -> None:
        if delta is None or not delta.stop_reason:
            return
        if delta.stop_reason == "tool_use" and not self._blocks.tools:
            raise malformed("the model stopped to call a tool, and called none")
        self._reason = delta.stop_reason

    def _count(self, counts: _TokenCounts | None) -> None:
        """The newest counts; a later event leaves out what it does not know."""
        if counts is not None:
            fields = {name: getattr(counts, name) for name in counts.__struct_fields__}
            self._counts.update({name: value for name, value in fields.items() if value is not None})

    def _usage(self) -> Usage | None:
        if not self._counts:
            return None
        inputs = sum(value for name, value in self._counts.items() if name != "output_tokens")
        return Usage(inputs, self._counts.get("output_tokens", 0))


def _index(event: _Event) -> int:
    if event.index is None:
        raise malformed(f"{event.type} without the index of its content block")
    return event.index
