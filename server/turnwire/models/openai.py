"""Models behind an OpenAI-compatible Chat Completions service: OpenAI itself, gateways, llama.cpp, vLLM, Ollama.

The call is `service`'s; here is what is asked, and of whom. `openai_messages` says it in the API's words, and
`openai_stream` understands the answer.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import openai

from turnwire.models.base import ModelEvent, ModelRequest
from turnwire.models.openai_messages import wire_messages, wire_tools
from turnwire.models.openai_stream import ChunkReader
from turnwire.models.service import CONNECT_SECONDS, Clock, address_and_key, read_answer, wall_clock
from turnwire.models.service_errors import SdkErrors

_ERRORS: Final = SdkErrors(
    status=openai.APIStatusError,
    timeout=openai.APITimeoutError,
    connection=openai.APIConnectionError,
    validation=openai.APIResponseValidationError,
    base=openai.OpenAIError,
)


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
        now: Clock = wall_clock,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        base_url, api_key = address_and_key(base_url, api_key, environ, "OPENAI")
        self.name = f"openai:{model}"
        self.model = model
        self._now = now
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            max_retries=0,
            timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call. Raises ModelError; ends without StepEnd when the service hangs up too early."""
        return read_answer(lambda: self._call(request), ChunkReader(), _ERRORS, self._now)

    async def aclose(self) -> None:
        """Closes the connections that are kept for further calls. Idempotent."""
        await self._client.close()

    def _call(self, request: ModelRequest) -> Any:
        return self._client.chat.completions.with_streaming_response.create(
            model=request.model or self.model,
            messages=wire_messages(request.messages),
            tools=wire_tools(request.tools) or openai.omit,
            stream=True,
            stream_options={"include_usage": True},
        )
