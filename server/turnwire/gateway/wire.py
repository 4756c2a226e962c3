"""WebSocket frames of whole messages, serialised once: a server's are unmasked and, without compression, all equal."""

from typing import Any, Final

from websockets.frames import Frame, Opcode

from turnwire.sessions.channel import Published, SnapshotFrames
from turnwire_protocol.codec import Format, encode
from turnwire_protocol.frames import Tick

_OPCODES: Final[dict[Format, Opcode]] = {"json": Opcode.TEXT, "msgpack": Opcode.BINARY}

PING: Final = Frame(Opcode.PING, b"turnwire").serialize(mask=False)


def to_wire(message: bytes, format: Format) -> bytes:
    """One message as the bytes that go over the network."""
    return Frame(_OPCODES[format], message).serialize(mask=False)


def wire_frame(value: Any, format: Format) -> bytes:
    """A frame of the protocol as the bytes that go over the network."""
    return to_wire(encode(value, format), format)


TICKS: Final[dict[Format, bytes]] = {"json": wire_frame(Tick(), "json"), "msgpack": wire_frame(Tick(), "msgpack")}


def wire_of(item: Published, format: Format) -> bytes:
    """The Mutation for every client of this format; made by the first that asks."""
    data = item.wire.get(format)
    if data is None:
        data = item.wire[format] = to_wire(item.encoded(format), format)
    return data


def wire_parts_of(snapshot: SnapshotFrames, format: Format) -> tuple[bytes, ...]:
    """The snapshot's frames for every client of this format; made by the first that asks."""
    parts = snapshot.wire.get(format)
    if parts is None:
        parts = snapshot.wire[format] = tuple(to_wire(part, format) for part in snapshot.encoded(format))
    return parts
