"""Fan-out: what a Session says within one turn of the scheduler goes to all of its clients as one write each.

The same joined bytes serve every client that keeps up, so a system call is paid for a client and turn, not for a client
and Mutation. There is no timer: the flush runs as soon as whoever published lets other tasks run, so nothing waits
when there is little to say. What a client that does not keep up gets, its `Outbox` decides frame by frame.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeAlias

import trio

from turnwire_protocol.codec import Format

FLUSH_BYTES: Final = 64 * 1024
"""A feed is not left to grow beyond this before it is flushed."""

FeedKey: TypeAlias = tuple[str, bool, Format]
"""Session, whether internal Messages are seen, and format: those who share it get the same bytes."""


class Member(Protocol):
    """Somebody who gets what a feed says."""

    def deliver(self, frames: Sequence[bytes], joined: bytes) -> None:
        """Frames in order, and the same bytes joined; returns at once and raises nothing."""

    def lose(self) -> None:
        """A frame cannot be delivered to anyone."""


class Feed:
    """The frames of one turn of the scheduler for all who get the same bytes."""

    __slots__ = ("_fanout", "_frames", "_key", "_members", "_size")

    def __init__(self, fanout: "Fanout", key: FeedKey) -> None:
        self._fanout = fanout
        self._key = key
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
            self._fanout.forget(self._key)

    def add(self, frame: bytes) -> None:
        """One more frame for all members, at the next flush."""
        if not self._frames:
            self._fanout.wake(self)
            self._size = 0
        self._frames.append(frame)
        self._size += len(frame)
        if self._size >= FLUSH_BYTES:
            self.flush()

    def lose(self) -> None:
        """Flushes, then tells all members that the next frame is missing."""
        self.flush()
        for member in list(self._members):
            member.lose()

    def flush(self) -> None:
        """Gives to all members what has been added."""
        frames, self._frames = self._frames, []
        if frames:
            joined = frames[0] if len(frames) == 1 else b"".join(frames)
            for member in list(self._members):
                member.deliver(frames, joined)


class Fanout:
    """All feeds of a gateway; `run` flushes them."""

    def __init__(self) -> None:
        self._feeds: dict[FeedKey, Feed] = {}
        self._dirty: list[Feed] = []
        self._something = trio.Event()

    def feed(self, key: FeedKey) -> Feed:
        """The feed for this key; there is one as long as it has members."""
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(self, key)
        return feed

    def forget(self, key: FeedKey) -> None:
        self._feeds.pop(key, None)

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
        """Flushes once for each turn of the scheduler in which something was added, until cancelled."""
        while True:
            await self._something.wait()
            self._something = trio.Event()
            self.flush()
