"""The outbox: which whole frame goes to one client next, and what is given up when the client is slow (W6). No I/O.

Two lanes. The *control* lane holds answers, ticks and the bytes of the WebSocket protocol itself; it goes first, so
that data starves none of them. The *data* lanes hold what concerns Sessions: Mutations, Snapshot parts, notices, in
one order for each Session; between Sessions bytes are shared fairly, so that a flood in one starves no other.
The *head* is what is being written; it is finished before anything else, so frames never interleave on the wire.

What is given up: when a Mutation does not fit into `outbox_bytes`, the Session with most bytes waiting loses its
Mutations, and the next one, until it fits. A Session concerned is *lagged*: it gets one `reload` notice and no
Mutations until its next snapshot. A snapshot that is under way goes on, and its notice follows the last part: a client
that is slower than the stream still gets one whole snapshot after the other instead of beginnings only (R3, R4). One
part of a snapshot at a time enters its lane, when the lane has drained below `low_water_bytes`, and the others wait
beside it. So a Mutation that is published meanwhile goes in between, where the client buffers it. Several snapshots
take turns.

Nothing of a snapshot is given up, so that snapshots do not count against the Mutations' bound but have their own: while
more than `snapshot_bytes` of them waits, the owner must begin no other (`takes_snapshots`), but lets whoever asked for
it wait. What is sent in the end is then as new as it can be.

Held bytes are at most: the Mutations' bound, or what was added at once when nothing waited, if that is more;
`snapshot_bytes` and one snapshot, of which one part may be in its lane; a head (another part, or `join_bytes`); what
the owner lets into the control lane; and one short notice for each Session. Bytes of a snapshot are shared by all
clients that joined at the same state, those of joined Mutations by all who were behind when they were said.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from turnwire.gateway.lanes import Kind, Lanes


class OutboxLimits(Struct, frozen=True):
    """All in bytes. `outbox_bytes` are of Mutations, `snapshot_bytes` of snapshots, before one more is begun.
    `join_bytes`: small frames are joined up to this size, to be written with one system call.
    """

    outbox_bytes: int = 1024 * 1024
    snapshot_bytes: int = 1024 * 1024
    low_water_bytes: int = 64 * 1024
    join_bytes: int = 64 * 1024


class Outbox:
    """The frames that wait for one client. `reload_notice` makes the encoded notice for a lagged Session."""

    __slots__ = (
        "_control",
        "_data",
        "_encode",
        "_head",
        "_lagged",
        "_limits",
        "_reload_notice",
        "_snapshot_bytes",
        "_snapshots",
        "_tick",
        "closed",
        "control_bytes",
        "frames_out",
        "interruptions",
        "lags",
        "quiet",
    )

    def __init__(self, limits: OutboxLimits, reload_notice: Callable[[str], bytes]) -> None:
        self._limits = limits
        self._reload_notice = reload_notice
        self._head: memoryview | None = None
        self._control: deque[bytes] = deque()
        self._data = Lanes()
        self._snapshots: dict[str, deque[bytes]] = {}
        self._snapshot_bytes = 0
        self._lagged: set[str] = set()
        self._tick: bytes | None = None
        self._encode: Callable[[bytes], bytes] | None = None
        self.control_bytes = 0
        """Bytes that wait in the control lane; the owner holds back what would make it grow."""
        self.frames_out = 0
        """Frames that were taken out to be written; the owner adds those that it writes by itself."""
        self.lags = 0
        """How often a Session has lost Mutations."""
        self.interruptions = 0
        """How often a Session was interrupted."""
        self.closed = False
        """True after the last words: everything that is added from then on is dropped."""
        self.quiet = False
        """True while frames may be written past the outbox, just as they are: nothing is being written or waits, no
        Session is lagged, nothing is encoded. Whatever is added ends it, and only `wrote` begins it.
        """

    @property
    def idle(self) -> bool:
        """Nothing is being written and nothing waits."""
        return self._head is None and not self._control and not self._data and not self._snapshots

    @property
    def pending_bytes(self) -> int:
        """All bytes that wait: of the head, of both lanes, and of snapshots that have not entered theirs."""
        head = 0 if self._head is None else len(self._head)
        return head + self.control_bytes + self._data.size + self._snapshot_bytes

    @property
    def takes_snapshots(self) -> bool:
        """Another snapshot may be begun: what waits of others is within its bound."""
        return self._snapshot_bytes <= self._limits.snapshot_bytes

    @property
    def tick_waits(self) -> bool:
        """The last tick has not been begun yet."""
        return self._tick is not None

    def is_lagged(self, session_id: str) -> bool:
        """Mutations of this Session are being dropped until its next snapshot."""
        return session_id in self._lagged

    def encode_with(self, encode: Callable[[bytes], bytes]) -> None:
        """What becomes of a frame on this connection alone from now on, in the order in which frames are written."""
        self.quiet = False
        self._encode = encode

    # ------------------------------------------------------------------------------------------------------ adding

    def add_control(self, frame: bytes) -> None:
        """Adds a frame that overtakes all data."""
        if not self.closed:
            self.quiet = False
            self._control.append(frame)
            self.control_bytes += len(frame)

    def add_tick(self, frame: bytes) -> None:
        """As `add_control`, unless the last tick is still waiting: a second one would say nothing new."""
        if self._tick is None and not self.closed:
            self._tick = frame
            self.add_control(frame)

    def add_mutations(self, session_id: str, frames: Sequence[bytes], joined: bytes) -> None:
        """Adds Mutations behind all else of their Session; drops them when that is lagged or becomes so now.

        `joined` are the same bytes as `frames`. They stay together, so that a slow client costs no more time than one
        that keeps up, unless each is to be encoded by itself.
        """
        if self._encode is None:
            self._add_mutations(session_id, joined, len(frames))
        else:
            for frame in frames:
                self._add_mutations(session_id, frame, 1)

    def _add_mutations(self, session_id: str, frames: bytes, count: int) -> None:
        if self.closed or session_id in self._lagged:
            return
        while self._data.mutation_bytes and self._data.mutation_bytes + len(frames) > self._limits.outbox_bytes:
            heaviest = self._data.heaviest(session_id, len(frames))
            self._data.keep(heaviest, lambda kind: kind is not Kind.MUTATION)
            self._lag(heaviest)
            if heaviest == session_id:
                return
        self._wait(Kind.MUTATION, session_id, frames, count)

    def lose(self, session_id: str) -> None:
        """A Mutation of this Session cannot be sent at all: the Session is lagged, the others are not touched."""
        if not self.closed and session_id not in self._lagged:
            self._lag(session_id)

    def begin_snapshot(self, session_id: str, parts: Iterable[bytes]) -> None:
        """The Session's state in frames, from which its later Mutations go on: it is no longer lagged.

        Parts of an earlier snapshot that have not been begun are dropped; queued Mutations stay, since the client may
        need them to reach the snapshot's `seq`, and drops them otherwise (W5). So does the notice of a loss that the
        client has not been told of yet: later Mutations may come before the first part, and must not seem to follow.
        """
        if self.closed:
            return
        untold = session_id in self._lagged and session_id in self._snapshots
        self._drop_snapshot(session_id)
        self._data.keep(session_id, lambda kind: kind is Kind.MUTATION or kind is Kind.RELOAD)
        if untold:
            self._wait(Kind.RELOAD, session_id, self._reload_notice(session_id))
        self._lagged.discard(session_id)
        waiting = deque(parts)
        if waiting:
            self.quiet = False
            self._snapshots[session_id] = waiting
            self._snapshot_bytes += sum(map(len, waiting))

    def interrupt(self, session_id: str, reload_notice: bytes) -> None:
        """Drops all that waits for this Session and sends the notice; nothing more until its next snapshot."""
        self.end_session(session_id)
        if not self.closed:
            self.interruptions += 1
            self._lagged.add(session_id)
            self._wait(Kind.RELOAD, session_id, reload_notice)

    def end_session(self, session_id: str, notice: bytes | None = None) -> None:
        """Drops all that waits for this Session, after which only `notice` is sent."""
        self._lagged.discard(session_id)
        self._drop_snapshot(session_id)
        self._data.keep(session_id, lambda _: False)
        if notice is not None and not self.closed:
            self._wait(Kind.FINAL, session_id, notice)

    def close(self, last_words: bytes | None = None) -> None:
        """Drops all data, lets the control lane end with `last_words`, and takes nothing more."""
        if self.closed:
            return
        if last_words is not None:
            self.add_control(last_words)
        self.closed = True
        self.quiet = False
        self._snapshots.clear()
        self._snapshot_bytes = 0
        self._lagged.clear()
        self._data = Lanes()

    # ----------------------------------------------------------------------------------------------------- writing

    def head(self) -> memoryview | None:
        """The bytes to write next; the same until `wrote` says that they are gone. None: nothing waits."""
        if self._head is None:
            self._head = self._take()
        return self._head

    def begin(self, frame: bytes, written: int) -> None:
        """The owner has written the start of a frame by itself while the outbox was idle: the rest is the head."""
        self.quiet = False
        self._head = memoryview(frame)[written:]

    def wrote(self, count: int) -> None:
        """The first `count` bytes of the head are gone."""
        if self._head is not None:
            self._head = self._head[count:] if count < len(self._head) else None
            self.quiet = self.idle and not self._lagged and not self.closed and self._encode is None

    def _wait(self, kind: Kind, session_id: str, frames: bytes, count: int = 1) -> None:
        self.quiet = False
        self._data.add(kind, session_id, frames, count)

    def _take(self) -> memoryview | None:
        frames: list[bytes] = []
        size = taken = 0
        room = self._limits.join_bytes
        while self._control and (not frames or size + len(self._control[0]) <= room):
            frame = self._control.popleft()
            if frame is self._tick:
                self._tick = None
            frames.append(frame)
            size += len(frame)
            self.control_bytes -= len(frame)
            taken += 1
        self._refill()
        while (
            not self._control
            and (next_size := self._data.peek()) is not None
            and (not frames or size + next_size <= room)
        ):
            joined, count = self._data.take()
            frames.append(joined)
            size += next_size
            taken += count
        if not frames:
            return None
        self.frames_out += taken
        if self._encode is not None:
            frames = [self._encode(frame) for frame in frames]
        return memoryview(frames[0] if len(frames) == 1 else b"".join(frames))

    def _refill(self) -> None:
        """Lets the next part of a snapshot in, if there is none and the lane of its Session has drained."""
        if self._data.snapshot_parts:
            return
        for session_id, parts in self._snapshots.items():
            if self._data.size_of(session_id) <= self._limits.low_water_bytes:
                self._let_in(session_id, parts)
                return

    def _let_in(self, session_id: str, parts: deque[bytes]) -> None:
        part = parts.popleft()
        self._snapshot_bytes -= len(part)
        self._wait(Kind.SNAPSHOT, session_id, part)
        del self._snapshots[session_id]
        if parts:
            self._snapshots[session_id] = parts  # behind the others
        elif session_id in self._lagged:
            self._wait(Kind.RELOAD, session_id, self._reload_notice(session_id))

    # --------------------------------------------------------------------------------------------------- giving up

    def _drop_snapshot(self, session_id: str) -> None:
        self._snapshot_bytes -= sum(map(len, self._snapshots.pop(session_id, ())))

    def _lag(self, session_id: str) -> None:
        self.lags += 1
        self._lagged.add(session_id)
        self._data.keep(session_id, lambda kind: kind is not Kind.RELOAD)
        if session_id not in self._snapshots:
            self._wait(Kind.RELOAD, session_id, self._reload_notice(session_id))
