"""Fan-out: what a Session says within one turn of the scheduler goes to all of its clients as one write each.

A feed hears a Mutation once for all of its clients, and serialises it once; the same joined bytes serve every client
that keeps up. So what is paid for a client is a system call a turn, and nothing a Mutation. Nothing waits when there is
little to say: the flush runs as soon as whoever published lets other tasks run. When there is much to say, it takes at
most half of the thread's time: it rests for as long as the last one took, and what is said meanwhile shares the next
system call. What a client that does not keep up gets, its `Outbox` decides frame by frame.
"""

import logging
from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias
from weakref import WeakValueDictionary

import trio

from turnwire.gateway.wire import to_wire
from turnwire.sessions.channel import Published
from turnwire_protocol.codec import Format

_log = logging.getLogger(__name__)

FLUSH_BYTES: Final = 64 * 1024
"""A feed is not left to grow beyond this before it is flushed."""

MOST_REST: Final = 0.01
"""Seconds: the longest rest between two flushes, however long one took."""

FeedKey: TypeAlias = tuple[str, bool, Format]
"""Session, whether internal Messages are seen, and format: those who share it get the same bytes."""


class Member(Protocol):
    """Somebody who gets what a feed says."""

    def feed_mutations(self, session_id: str, frames: Sequence[bytes], joined: bytes) -> None:
        """Frames in order, and the same bytes joined; returns at once and raises nothing."""

    def lose_mutation(self, session_id: str) -> None:
        """A frame cannot be delivered to anyone."""


class Feed:
    """The frames of one turn of the scheduler for all who get the same bytes: a `Listener` for all of them."""

    __slots__ = ("__weakref__", "_fanout", "_format", "_frames", "_members", "_session_id", "_size")

    def __init__(self, fanout: "Fanout", key: FeedKey) -> None:
        self._fanout = fanout
        self._session_id, _, self._format = key
        self._frames: list[bytes] = []
        self._size = 0
        self._members: dict[Member, None] = {}

    def join(self, member: Member) -> None:
        """From now on `member` gets what is added; what was added before is flushed to the others first."""
        self.flush()
        self._members[member] = None

    def leave(self, member: Member) -> None:
        """`member` gets nothing more, nor what has not been flushed. Idempotent."""
        self._members.pop(member, None)
        if not self._members:
            self._frames.clear()

    def published(self, item: Published) -> None:
        """One more Mutation for all members, unless it is above `max_frame`: then they have to reload (W10)."""
        if not self._members:
            return
        frame = to_wire(item.encoded(self._format), self._format)
        if len(frame) <= self._fanout.max_frame:
            self.add(frame)
            return
        _log.error(
            "a Mutation of session %(session_id)s is above max_frame and was not sent", {"session_id": self._session_id}
        )
        self.flush()
        for member in list(self._members):
            member.lose_mutation(self._session_id)

    def add(self, frame: bytes) -> None:
        """One more frame for all members, at the next flush."""
        if not self._frames:
            self._fanout.wake(self)
            self._size = 0
        self._frames.append(frame)
        self._size += len(frame)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Gives to all members what has been added."""
        frames, self._frames = self._frames, []
        if frames:
            joined = frames[0] if len(frames) == 1 else b"".join(frames)
            for member in list(self._members):
                member.feed_mutations(self._session_id, frames, joined)


class Fanout:
    """All feeds of a gateway; `run` flushes them. `max_frame` is in bytes (W10)."""

    def __init__(self, max_frame: int) -> None:
        self.max_frame = max_frame
        self._feeds: WeakValueDictionary[FeedKey, Feed] = WeakValueDictionary()
        self._dirty: list[Feed] = []
        self._something = trio.Event()

    def feed(self, key: FeedKey) -> Feed:
        """The feed for this key: the same one as long as somebody holds it."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(self, key)
        return feed

    def wake(self, feed: Feed) -> None:
        """This feed has something to flush."""
        self._dirty.append(feed)
        self._something.set()

    def flush(self) -> None:
        """Flushes every feed that has something."""
        dirty, self._dirty = self._dirty, []
        for feed in dirty:
            feed.flush()

    async def run(self) -> None:
        """Flushes what was added, after each turn of the scheduler or, under load, after several; until cancelled."""
        rested_at = 0.0
        while True:
            await self._something.wait()
            if trio.current_time() < rested_at:
                await trio.sleep_until(rested_at)
            self._something = trio.Event()
            began = trio.current_time()
            self.flush()
            ended = trio.current_time()
            rested_at = ended + min(ended - began, MOST_REST)
