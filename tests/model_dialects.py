"""What the model services speak, so that one contract suite can be run against every provider.

A `Script` says one answer, neutral in its words and exact in the service's; `Dialect` knows the rest.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pytest

from model_service import Answer, Exchange
from turnwire.models.anthropic import MAX_TOKENS, AnthropicProvider
from turnwire.models.anthropic_stream import EventReader
from turnwire.models.base import ToolSpec
from turnwire.models.openai import OpenAIProvider
from turnwire.models.openai_stream import ChunkReader
from turnwire.models.service import Clock, wall_clock

Map = dict[str, Any]
Provider = OpenAIProvider | AnthropicProvider

KEY: Final = "sk-secret-1234"
USAGE: Final = (7, 2)
"""The tokens that every scripted answer says it took: input, output."""


class Script(ABC):
    """The events of one answer, as they are said."""

    def __init__(self) -> None:
        self.payloads: list[Map | str] = []

    def take(self) -> list[Map | str]:
        """What was said since the last time."""
        payloads, self.payloads = self.payloads, []
        return payloads

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def text(self, text: str) -> None: ...

    @abstractmethod
    def reasoning(self, text: str) -> None: ...

    @abstractmethod
    def call(self, key: int, tool_call_id: str, name: str) -> None:
        """A call of a tool begins; `key` counts the calls from 0."""

    @abstractmethod
    def input(self, key: int, fragment: str) -> None: ...

    @abstractmethod
    def finish(self, reason: str = "stop") -> None:
        """Says why the model stopped, in the words of `StepEnd.reason`, and the usage."""

    @abstractmethod
    def end(self) -> None:
        """The service's last event."""


class Dialect(ABC):
    """One service as the tests see it."""

    name: str
    target: str
    filler: ClassVar[Map]
    """An event that is well formed and says nothing."""

    @abstractmethod
    def provider(self, url: str, *, model: str = "test-model", now: Clock = wall_clock) -> Provider: ...

    @abstractmethod
    def script(self) -> Script: ...

    @abstractmethod
    def reader(self) -> ChunkReader | EventReader: ...

    @abstractmethod
    def calls_in(self, body: Map) -> list[tuple[str, str, Any]]:
        """(id, tool, input) of every call that a request tells of."""

    @abstractmethod
    def results_in(self, body: Map) -> list[tuple[str, str]]:
        """(id, output) of every result that a request tells of."""

    @abstractmethod
    def asking(self, *, model: str, prompt: str, system: str | None = None, tool: ToolSpec | None = None) -> Map:
        """The whole body of a request that says this."""

    @abstractmethod
    def error(self, type_: str, message: str) -> Map:
        """The body of a failed request, and the event of a failed stream."""

    def answer(self, *steps: Callable[[Script], None]) -> Answer:
        """A whole, proper answer that says these things."""

        async def say(exchange: Exchange) -> None:
            await exchange.start()
            await self.tell(exchange, lambda script: [step(script) for step in steps], end=True)
            await exchange.finish()

        return say

    async def tell(
        self, exchange: Exchange, say: Callable[[Script], Any], *, begin: bool = True, end: bool = False
    ) -> None:
        """The beginning of an answer, up to what was said."""
        script = self.script()
        if begin:
            script.begin()
        say(script)
        if end:
            script.end()
        for payload in script.take():
            await exchange.event(payload)


class OpenAIScript(Script):
    def begin(self) -> None:
        self._delta(role="assistant", content="")

    def text(self, text: str) -> None:
        self._delta(content=text)

    def reasoning(self, text: str) -> None:
        self._delta(reasoning_content=text)

    def call(self, key: int, tool_call_id: str, name: str) -> None:
        function = {"name": name, "arguments": ""}
        self._delta(tool_calls=[{"index": key, "id": tool_call_id, "type": "function", "function": function}])

    def input(self, key: int, fragment: str) -> None:
        self._delta(tool_calls=[{"index": key, "function": {"arguments": fragment}}])

    def finish(self, reason: str = "stop") -> None:
        self._choice({}, reason)
        usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1], "total_tokens": sum(USAGE)}
        self.payloads.append({"choices": [], "usage": usage})

    def end(self) -> None:
        self.payloads.append("[DONE]")

    def _delta(self, **delta: Any) -> None:
        self._choice(delta, None)

    def _choice(self, delta: Map, finish_reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        self.payloads.append({"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


class OpenAI(Dialect):
    name = "openai"
    target = "/v1/chat/completions"
    filler: ClassVar[Map] = {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]}

    def provider(self, url: str, *, model: str = "test-model", now: Clock = wall_clock) -> Provider:
        return OpenAIProvider(model, base_url=url, api_key=KEY, environ={}, now=now)

    def script(self) -> Script:
        return OpenAIScript()

    def reader(self) -> ChunkReader | EventReader:
        return ChunkReader()

    def calls_in(self, body: Map) -> list[tuple[str, str, Any]]:
        calls = [call for message in body["messages"] for call in message.get("tool_calls", [])]
        return [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]

    def results_in(self, body: Map) -> list[tuple[str, str]]:
        messages = [message for message in body["messages"] if message["role"] == "tool"]
        return [(message["tool_call_id"], message["content"]) for message in messages]

    def asking(self, *, model: str, prompt: str, system: str | None = None, tool: ToolSpec | None = None) -> Map:
        messages = [{"role": "user", "content": prompt}]
        if system is not None:
            messages.insert(0, {"role": "system", "content": system})
        body = {"model": model, "stream": True, "stream_options": {"include_usage": True}, "messages": messages}
        if tool is None:
            return body
        function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        return {**body, "tools": [{"type": "function", "function": function}]}

    def error(self, type_: str, message: str) -> Map:
        return {"error": {"type": type_, "message": message, "code": None, "param": None}}


class AnthropicScript(Script):
    REASONS: Final[Mapping[str, str]] = {
        "stop": "end_turn",
        "length": "max_tokens",
        "content_filter": "refusal",
        "tool_calls": "tool_use",
    }

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._open: dict[str, int] = {}

    def begin(self) -> None:
        usage = {"input_tokens": 4, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 1}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        self.payloads += [{"type": "message_start", "message": head}, {"type": "ping"}]

    def text(self, text: str) -> None:
        self._say("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": text})

    def reasoning(self, text: str) -> None:
        start = {"type": "thinking", "thinking": "", "signature": ""}
        self._say("thinking", start, {"type": "thinking_delta", "thinking": text})

    def call(self, key: int, tool_call_id: str, name: str) -> None:
        self._close("text", "thinking")
        start = {"type": "tool_use", "id": tool_call_id, "name": name, "input": {}}
        self._say(f"call {key}", start, {"type": "input_json_delta", "partial_json": ""})

    def input(self, key: int, fragment: str) -> None:
        self._say(f"call {key}", {}, {"type": "input_json_delta", "partial_json": fragment})

    def finish(self, reason: str = "stop") -> None:
        self._close(*list(self._open))
        delta = {"stop_reason": self.REASONS.get(reason, reason), "stop_sequence": None}
        self.payloads.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": USAGE[1]}})

    def end(self) -> None:
        self.payloads.append({"type": "message_stop"})

    def _say(self, name: str, start: Map, delta: Map) -> None:
        if name not in self._open:
            self._close("text", "thinking")
            self._open[name], self._count = self._count, self._count + 1
            self.payloads.append({"type": "content_block_start", "index": self._open[name], "content_block": start})
        self.payloads.append({"type": "content_block_delta", "index": self._open[name], "delta": delta})

    def _close(self, *names: str) -> None:
        for name in names:
            if (index := self._open.pop(name, None)) is not None:
                self.payloads.append({"type": "content_block_stop", "index": index})


class Anthropic(Dialect):
    name = "anthropic"
    target = "/v1/messages"
    filler: ClassVar[Map] = {"type": "ping"}

    def provider(self, url: str, *, model: str = "test-model", now: Clock = wall_clock) -> Provider:
        return AnthropicProvider(model, base_url=url, api_key=KEY, environ={}, now=now)

    def script(self) -> Script:
        return AnthropicScript()

    def reader(self) -> ChunkReader | EventReader:
        return EventReader()

    def calls_in(self, body: Map) -> list[tuple[str, str, Any]]:
        blocks = [block for message in body["messages"] for block in message["content"]]
        return [(block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]

    def results_in(self, body: Map) -> list[tuple[str, str]]:
        blocks = [block for message in body["messages"] for block in message["content"]]
        return [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]

    def asking(self, *, model: str, prompt: str, system: str | None = None, tool: ToolSpec | None = None) -> Map:
        messages = [{"role": "user", "content": [{"type": "text", "text": prompt}]}]
        body: Map = {"model": model, "max_tokens": MAX_TOKENS, "stream": True, "messages": messages}
        if system is not None:
            body["system"] = [{"type": "text", "text": system}]
        if tool is not None:
            spec = {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            body["tools"] = [spec]
        return body

    def error(self, type_: str, message: str) -> Map:
        return {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_1"}


DIALECTS: Final[tuple[Dialect, ...]] = (OpenAI(), Anthropic())


@pytest.fixture(params=DIALECTS, ids=lambda dialect: dialect.name)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """What the service speaks: a test with it is run once for each provider."""
    spoken: Dialect = request.param
    return spoken


def saying(*texts: str) -> Callable[[Script], None]:
    """A step of an answer: text in these deltas, and the proper reason to stop."""

    def say(script: Script) -> None:
        for text in texts:
            script.text(text)
        script.finish()

    return say


def calling(*calls: tuple[str, str, str]) -> Callable[[Script], None]:
    """A step of an answer: these calls (id, tool, input), one after the other, each input in two fragments."""

    def say(script: Script) -> None:
        for key, (tool_call_id, name, text) in enumerate(calls):
            script.call(key, tool_call_id, name)
            half = len(text) // 2
            for fragment in (text[:half], text[half:]):
                script.input(key, fragment)
        script.finish("tool_calls")

    return say
