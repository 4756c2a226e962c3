"""WebSocket frames of whole messages, serialised once: a server's are unmasked and, without compression, all equal.

With compression each connection makes its own of them, by `compressed`.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from websockets.extensions import Extension
from websockets.frames import DATA_OPCODES, Frame, Opcode

from turnwire.sessions.channel import SnapshotFrames
from turnwire_protocol.codec import Format, encode
from turnwire_protocol.frames import Tick

_OPCODES: Final[dict[Format, Opcode]] = {"json": Opcode.TEXT, "msgpack": Opcode.BINARY}

PING: Final = Frame(Opcode.PING, b"turnwire").serialize(mask=False)


def to_wire(message: bytes, format: Format) -> bytes:
    """One message as the bytes that go over the network."""
    return Frame(_OPCODES[format], message).serialize(mask=False)


def size_of(message: str | bytes) -> int:
    """Bytes of a message that came, without its header."""
    if isinstance(message, bytes) or message.isascii():
        return len(message)
    return len(message.encode())


def wire_frame(value: Any, format: Format) -> bytes:
    """A frame of the protocol as the bytes that go over the network."""
    return to_wire(encode(value, format), format)


TICKS: Final[dict[Format, bytes]] = {"json": wire_frame(Tick(), "json"), "msgpack": wire_frame(Tick(), "msgpack")}


def wire_parts_of(snapshot: SnapshotFrames, format: Format) -> tuple[bytes, ...]:
    """The snapshot's frames for every client of this format; made by the first that asks."""
    parts = snapshot.wire.get(format)
    if parts is None:
        parts = snapshot.wire[format] = tuple(to_wire(part, format) for part in snapshot.encoded(format))
    return parts


def compressed(extensions: Sequence[Extension]) -> Callable[[bytes], bytes]:
    """What makes a connection's own frames of those that all share, by what it has agreed on.

    A compressor remembers what it has seen, so it must be given the frames in the order in which they are written, and
    each that it is given must be written.
    """

    def encode(frames: bytes) -> bytes:
        first = frames[0] & 0x0F
        if not frames[0] & _FIN or first not in DATA_OPCODES:
            return frames  # the answer to the opening handshake, a pong, a close
        start, end = _payload_of(frames)
        message = Frame(Opcode(first), frames[start:end]).serialize(mask=False, extensions=extensions)
        return message + frames[end:]  # a ping may stand behind a tick

    return encode


_FIN: Final = 0x80


def _payload_of(frame: bytes) -> tuple[int, int]:
    """Where the payload of an unmasked frame begins and ends."""
    length = frame[1]
    if length == 126:
        return 4, 4 + int.from_bytes(frame[2:4], "big")
    if length == 127:
        return 10, 10 + int.from_bytes(frame[2:10], "big")
    return 2, 2 + length
