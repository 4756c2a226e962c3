"""Server-sent events: bytes in, data payloads out. No I/O, and nothing about what the payloads mean.

Written for the streams of model services: names, ids and comments (keep-alives) of events are skipped, and so are
events without data. Bytes are cut only at line ends, so a character that was split between network packets is whole
again.
"""

from typing import Final

MAX_LINE: Final = 8 * 1024 * 1024
"""The longest line that is collected, in bytes; a model's delta is far below."""


class SseOverflow(ValueError):
    """A line is longer than MAX_LINE."""


class SseDecoder:
    """Feed it what came from the network; it gives the payloads of the events that are complete."""

    def __init__(self) -> None:
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._after_cr = False
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads of the events that these bytes complete. Raises SseOverflow."""
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        *lines, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        if lines:
            lines[0] = b"".join([*self._tail, lines[0]])
            self._tail, self._tail_size = [], 0
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
            if self._tail_size > MAX_LINE:
                raise SseOverflow(f"a line is longer than {MAX_LINE} bytes")
        return [payload for line in lines if (payload := self._line(line)) is not None]

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data = self._data, []
            return b"\n".join(data) or None
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        return None
