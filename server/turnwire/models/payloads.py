"""Payloads of server-sent events to structs, whatever a service gets wrong in them. What they mean is the reader's."""

import json
from typing import Final, Generic, TypeVar

import msgspec

from turnwire.models.service_errors import malformed

QUOTED_BYTES: Final = 80
"""How much of a payload that cannot be read is shown."""

T = TypeVar("T")


class PayloadDecoder(Generic[T]):
    """Reads JSON of one shape; fields that the shape does not name are skipped."""

    def __init__(self, shape: type[T]) -> None:
        self._shape = shape
        self._decoder = msgspec.json.Decoder(shape)

    def decode(self, payload: bytes) -> T:
        """Raises ModelError `malformed_stream` with the beginning of what cannot be read."""
        try:
            return self._decoder.decode(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            if b"\\u" not in payload:
                raise malformed(_quote(payload, error)) from error
        # msgspec refuses an escaped lone surrogate; the standard library lets it pass.
        try:
            return msgspec.convert(json.loads(payload), self._shape)
        except (ValueError, RecursionError) as error:
            raise malformed(_quote(payload, error)) from error


def _quote(payload: bytes, error: Exception) -> str:
    return f"{error} in {payload[:QUOTED_BYTES].decode(errors='replace')!r}"
