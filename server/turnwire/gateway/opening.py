"""The opening of a connection: what stands behind the HTTP request must not be read before that is answered. No I/O.

A client may send frames without waiting for the answer. To websockets, which would read them at once, a wrong one among
them is the end of a connection that has not begun, and the answer then finds it ended.
"""

from typing import Final

END_OF_REQUEST: Final = b"\r\n\r\n"


class Opening:
    """Finds the end of the request in the bytes that come, and keeps what stands behind it in `rest`."""

    __slots__ = ("_tail", "rest")

    def __init__(self) -> None:
        self._tail = b""
        self.rest: bytes | None = None
        """None until the request is whole."""

    def request_part(self, data: bytes) -> bytes:
        """What of the next bytes belongs to the request, if it is not whole yet; nothing only if there was nothing."""
        joined = self._tail + data
        end = joined.find(END_OF_REQUEST)
        if end < 0:
            self._tail = joined[1 - len(END_OF_REQUEST) :]
            return data
        length = end + len(END_OF_REQUEST) - len(self._tail)
        self.rest = data[length:]
        return data[:length]
