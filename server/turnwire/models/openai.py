"""Models behind an OpenAI-compatible Chat Completions service: OpenAI itself, gateways, llama.cpp, vLLM, Ollama.

The SDK makes the request, with its own retries off, and the bytes of the answer are read here: the SDK's own stream
leaves async generators behind, which trio reports. `sse`, `openai_stream` and `openai_errors` understand the answer.
"""

import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from math import inf
from typing import Any, Final

import httpx2
import openai
import trio

from turnwire.models.base import (
    Content,
    FileContent,
    ModelError,
    ModelEvent,
    ModelMessage,
    ModelRequest,
    TextContent,
    ToolCallContent,
    ToolResultContent,
    clean_text,
)
from turnwire.models.openai_errors import classified, malformed
from turnwire.models.openai_stream import ChunkReader
from turnwire.models.sse import SseDecoder, SseOverflow

CONNECT_SECONDS: Final = 10.0
"""How long a connection may take; the limits of the answer itself are `timeouts`."""

USAGE_SECONDS: Final = 2.0
"""How long the token counts are waited for when the model has finished: an answer never fails for want of them."""

DRAIN_SECONDS: Final = 0.1
"""How long the end of the HTTP body is waited for after `[DONE]`, so that the connection can be used again."""

_NO_KEY: Final = "none"
"""Sent where no key is known: servers of one's own want none, but the SDK insists."""

_NOT_A_STREAM: Final = ("application/json", "text/html")


class BadService(ValueError):
    """The service cannot be used as configured; the text says what to set."""


class OpenAIProvider:
    """One service, and the model that is asked where a request names none.

    `base_url` is where a compatible service answers, such as `http://127.0.0.1:8080/v1`; default is OPENAI_BASE_URL or
    OpenAI itself. `api_key` is OPENAI_API_KEY by default; with a `base_url` there need be none. `now` is the wall clock
    in seconds. Raises BadService. Connections are opened by calls only; `aclose` lets them go.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        now: Callable[[], float] = time.time,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        base_url = base_url or environ.get("OPENAI_BASE_URL") or None
        if base_url is not None and not base_url.startswith(("http://", "https://")):
            raise BadService(f"the base URL must begin with http:// or https://, got {base_url!r}")
        api_key = api_key or environ.get("OPENAI_API_KEY") or (_NO_KEY if base_url else None)
        if api_key is None:
            raise BadService("OPENAI_API_KEY is not set, and no base URL of another service was given")
        self.name = f"openai:{model}"
        self.model = model
        self._now = now
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call. Raises ModelError; ends without StepEnd when the service hangs up too early."""
        decoder, reader, tail_until = SseDecoder(), ChunkReader(), inf
        call = self._client.chat.completions.with_streaming_response.create(
            model=request.model or self.model,
            messages=[each for message in request.messages for each in _messages(message)],
            stream=True,
            stream_options={"include_usage": True},
        )
        async with AsyncExitStack() as stack:
            with classified(answering=False, now=self._now):
                response = (await stack.enter_async_context(call)).http_response
            _check_type(response.headers.get("content-type", ""))
            parts = response.aiter_bytes()
            stack.push_async_callback(_let_go, parts)
            while (part := await self._next(parts, tail_until)) is not None:
                for payload in _payloads(decoder, part):
                    for event in reader.feed(payload):
                        yield event
                tail_until = min(tail_until, _tail_until(reader))
        for event in reader.end():
            yield event

    async def aclose(self) -> None:
        """Closes the connections that are kept for further calls. Idempotent."""
        await self._client.close()

    async def _next(self, parts: AsyncGenerator[bytes, None], tail_until: float) -> bytes | None:
        """The next bytes, or None at the end; in the tail, whatever happens is the end, for the answer is complete."""
        try:
            with trio.move_on_at(tail_until), classified(answering=True, now=self._now):
                return await anext(parts, None)
        except ModelError:
            if tail_until == inf:
                raise
        return None


async def _let_go(parts: AsyncGenerator[bytes, None]) -> None:
    """Ends a body that was not read to its end, and with it the request.

    Merely closing `parts` would leave the generators of the HTTP client's inner layers to the garbage collector. A
    read that is cancelled at once unwinds them all, here and now.
    """
    with trio.CancelScope() as scope, suppress(httpx2.HTTPError):  # the call is over, whatever the connection says
        scope.cancel()
        while await anext(parts, None) is not None:
            pass


def _tail_until(reader: ChunkReader) -> float:
    if reader.done:
        return trio.current_time() + DRAIN_SECONDS
    return trio.current_time() + USAGE_SECONDS if reader.finished else inf


def _payloads(decoder: SseDecoder, part: bytes) -> list[bytes]:
    try:
        return decoder.feed(part)
    except SseOverflow as error:
        raise malformed(str(error)) from error


def _check_type(content_type: str) -> None:
    if content_type.partition(";")[0].strip().lower() in _NOT_A_STREAM:
        raise malformed(f"it answered with {content_type} instead of an event stream")


def _messages(message: ModelMessage) -> list[Any]:
    """One message of ours as those of Chat Completions: every tool result is a message of its own there."""
    match message.role:
        case "tool":
            return [
                {"role": "tool", "tool_call_id": part.tool_call_id, "content": clean_text(part.output)}
                for part in message.content
                if isinstance(part, ToolResultContent)
            ]
        case "assistant":
            return [_assistant(message)]
        case _:
            return [{"role": message.role, "content": _input(message.content)}]


def _input(content: tuple[Content, ...]) -> str | list[dict[str, Any]]:
    texts = [part for part in content if isinstance(part, TextContent)]
    if len(texts) == len(content):
        # A plain string is what every compatible server understands.
        return "\n".join(clean_text(part.text) for part in texts)
    return [_content(part) for part in content if isinstance(part, TextContent | FileContent)]


def _assistant(message: ModelMessage) -> dict[str, Any]:
    """What the model said and called; its reasoning is its own and is not told again."""
    calls = [
        {
            "id": part.tool_call_id,
            "type": "function",
            "function": {"name": clean_text(part.tool_name), "arguments": clean_text(part.input_json)},
        }
        for part in message.content
        if isinstance(part, ToolCallContent)
    ]
    texts = [clean_text(part.text) for part in message.content if isinstance(part, TextContent)]
    said: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts)}
    return {**said, "tool_calls": calls} if calls else said


def _content(part: TextContent | FileContent) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"type": "text", "text": clean_text(part.text)}
    url, name = clean_text(part.url), clean_text(part.filename or "file")
    if part.media_type.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": url}}
    if url.startswith("data:"):
        return {"type": "file", "file": {"filename": name, "file_data": url}}
    # Chat Completions fetches nothing but images: the model is told what it cannot see.
    return {"type": "text", "text": f"[{name} ({clean_text(part.media_type)}): {url}]"}
