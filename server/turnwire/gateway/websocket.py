"""The WebSocket of one client: websockets' connection on a `FrameStream`, with an end that waits for nobody, and what
that library may log.
"""

import logging
from typing import Any

import trio
from websockets.frames import CTRL_OPCODES, DATA_OPCODES, Frame
from websockets.protocol import Event, State
from websockets.server import ServerProtocol
from websockets.trio.server import Server, ServerConnection

from turnwire.gateway.pace import Pace, PaceLimits
from turnwire.gateway.rates import Bucket, Rate
from turnwire.gateway.stream import FrameStream


class QuietLogger(logging.LoggerAdapter[logging.Logger]):
    """What websockets may log to: at DEBUG it would write down every header and message, and tokens with them (X2)."""

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the name is that of logging
        return level > logging.DEBUG and super().isEnabledFor(level)


class WebSocket(ServerConnection):
    """`first_bytes`: what the client may send, opening handshake included, until its first message is whole (W3);
    `max_fragments`: of how many frames a message may consist; `pace`: how long one may take; `control_rate`: how many
    pings and pongs may come (W9).
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        frames: FrameStream,
        protocol: ServerProtocol,
        server: Server,
        *,
        first_bytes: int,
        max_fragments: int,
        pace: PaceLimits,
        control_rate: Rate,
        **options: Any,
    ) -> None:
        self.frames = frames
        frames.allowance = self._first_bytes = first_bytes
        frames.on_excess = self._refuse_excess
        self._max_fragments = max_fragments
        self._fragments = 0
        self.pace = frames.pace = Pace(pace)
        self._control = Bucket(control_rate, trio.current_time())
        super().__init__(nursery, frames, protocol, server, **options)

    def process_event(self, event: Event) -> None:
        """As websockets does; called for each frame before more is read, so that the allowance ends in time."""
        if isinstance(event, Frame) and event.opcode in CTRL_OPCODES and self._control.take(trio.current_time()):
            # Nobody reads them, so neither the limits of requests nor a full buffer would ever hold them up.
            self.close_now(4429, "too many pings and pongs")
            return
        if isinstance(event, Frame) and event.opcode in DATA_OPCODES:
            self._fragments += 1
            if self.frames.on_excess is not None:
                self._first_bytes -= len(event.data)
                if self._first_bytes < 0:  # what came over the network may have been compressed
                    self._refuse_excess()
                    return
            if self._fragments > self._max_fragments:
                # Empty ones would never reach the limit in bytes.
                self.close_now(1009, "too many fragments")
                return
            if event.fin:
                self._fragments = 0
                self.frames.on_excess = None
            else:
                self.pace.received(0, trio.current_time())
        if not self._fragments:
            self.pace.ended()
        super().process_event(event)

    def close_now(self, code: int, reason: str) -> None:
        """Ends the connection with a close frame, without waiting for the client; idempotent.

        Nothing that the client sends from now on is looked at, and the stream ends within its close timeout.
        """
        if self.protocol.state is State.OPEN:
            self.protocol.fail(code, reason)
            self.frames.finish(self.protocol.data_to_send())

    def _refuse_excess(self) -> None:
        if self.protocol.state is State.CONNECTING:
            self.frames.abandon()
        else:
            self.close_now(1009, "too much before hello")
