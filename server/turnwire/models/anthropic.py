"""Models behind the Messages API: Anthropic itself and services that speak like it.

The call is `service`'s; here is what is asked, and of whom. `anthropic_messages` says it in the API's words, and
`anthropic_stream` understands the answer. The SDK is an extra of the distribution: nothing else imports it.
"""

import os
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import anthropic

from turnwire.models.anthropic_messages import wire_input
from turnwire.models.anthropic_stream import EventReader
from turnwire.models.base import ModelEvent, ModelRequest
from turnwire.models.service import CONNECT_SECONDS, Clock, address_and_key, read_answer, wall_clock
from turnwire.models.service_errors import SdkErrors

MAX_TOKENS: Final = 8192
"""The longest answer that is asked for by default, in tokens: the API wants a number, and models differ in theirs."""

_ERRORS: Final = SdkErrors(
    status=anthropic.APIStatusError,
    timeout=anthropic.APITimeoutError,
    connection=anthropic.APIConnectionError,
    validation=anthropic.APIResponseValidationError,
    base=anthropic.AnthropicError,
)


class AnthropicProvider:
    """One service, and the model that is asked where a request names none.

    `base_url` is where a compatible service answers, with or without `/v1` at its end; default is ANTHROPIC_BASE_URL or
    Anthropic itself. `api_key` is ANTHROPIC_API_KEY by default; with a `base_url` there need be none. `max_tokens` is
    the longest answer. `now` is the wall clock in seconds. Raises BadService. Connections are opened by calls only;
    `aclose` lets them go.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        max_tokens: int = MAX_TOKENS,
        now: Clock = wall_clock,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        base_url, api_key = address_and_key(base_url, api_key, environ, "ANTHROPIC")
        self.name = f"anthropic:{model}"
        self.model = model
        self._max_tokens = max_tokens
        self._now = now
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=None if base_url is None else base_url.rstrip("/").removesuffix("/v1"),
            max_retries=0,
            timeout=anthropic.Timeout(None, connect=CONNECT_SECONDS),
            open_telemetry=False,
        )

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One call. Raises ModelError; ends without StepEnd when the service hangs up too early."""
        return read_answer(lambda: self._call(request), EventReader(), _ERRORS, self._now)

    async def aclose(self) -> None:
        """Closes the connections that are kept for further calls. Idempotent."""
        await self._client.close()

    def _call(self, request: ModelRequest) -> Any:
        return self._client.messages.with_streaming_response.create(
            model=request.model or self.model,
            max_tokens=self._max_tokens,
            stream=True,
            **wire_input(request.messages, request.tools),
        )
