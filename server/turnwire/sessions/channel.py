"""The channel: who watches a Session, under which numbers, and in which bytes (W4-W6).

A channel is synchronous: `publish` numbers a Mutation and hands it to all who listen before it returns, so order is
the same for all, and nobody's slowness is felt here. Each audience has its own `seq` line within one `epoch` (W5).
"""

from collections.abc import Iterator
from typing import Literal, Protocol, TypeAlias

from turnwire_protocol.codec import Format, encode, encode_mutation
from turnwire_protocol.frames import Joined, Snapshot
from turnwire_protocol.mutations import Mutation

Audience: TypeAlias = Literal["visible", "all"]
"""Who sees what: `all` also sees internal Messages."""

EndReason: TypeAlias = Literal["deleted", "forbidden"]


class Published:
    """One Mutation under its number, encoded at most once for each format, however many watch."""

    __slots__ = ("_encoded", "epoch", "mutation", "seq")

    def __init__(self, mutation: Mutation, epoch: str, seq: int) -> None:
        self.mutation = mutation
        self.epoch = epoch
        self.seq = seq
        self._encoded: dict[Format, bytes] = {}

    def encoded(self, format: Format) -> bytes:
        """The `mutation` frame in this format."""
        data = self._encoded.get(format)
        if data is None:
            data = self._encoded[format] = encode_mutation(self.mutation, epoch=self.epoch, seq=self.seq, format=format)
        return data


class SnapshotFrames:
    """A Session's state at one point, as `snapshot` frames, shared by all who join at it."""

    __slots__ = ("joined", "parts", "wire")

    def __init__(self, parts: tuple[Snapshot, ...]) -> None:
        self.parts = parts
        self.joined = Joined(epoch=parts[0].epoch, seq=parts[0].seq)
        self.wire: dict[Format, tuple[bytes, ...]] = {}
        """For the gateway, the bytes as they go over the network: made once, and held in no other way, being large."""

    def encoded(self, format: Format) -> Iterator[bytes]:
        """One encoded `snapshot` frame for each part, in order."""
        return (encode(part, format) for part in self.parts)


class Listener(Protocol):
    """Who is told of Mutations. Synchronous, returns at once and raises nothing."""

    def published(self, item: Published) -> None:
        """The next Mutation."""


class Watcher(Protocol):
    """Someone who follows a Session. All methods are synchronous, return at once and raise nothing."""

    @property
    def listener(self) -> Listener:
        """Who hears the Mutations for it: itself, or one that several watchers share and that is told once for all.
        Asked for whenever it is added.
        """

    def joined(self, snapshot: SnapshotFrames) -> None:
        """The state from which the following Mutations go on (W4)."""

    def restarted(self, session_id: str) -> None:
        """The Session goes on in another epoch; the watcher is no longer in it, and should join again (W7)."""

    def ended(self, session_id: str, reason: EndReason) -> None:
        """Nothing more will come: the Session was deleted, or may no longer be watched."""


class Channel:
    """The watchers and numbers of one Session; owned by the Session, changed by nobody else."""

    def __init__(self, session_id: str, epoch: str) -> None:
        self.session_id = session_id
        self.epoch = epoch
        self._seq: dict[Audience, int] = {"visible": 0, "all": 0}
        self._watchers: dict[Audience, dict[Watcher, Listener]] = {"visible": {}, "all": {}}
        self._listeners: dict[Audience, dict[Listener, int]] = {"visible": {}, "all": {}}
        """For how many watchers each listens."""

    def seq(self, audience: Audience) -> int:
        """The number of the newest Mutation that this audience was given."""
        return self._seq[audience]

    @property
    def watched(self) -> bool:
        return any(self._watchers.values())

    def add(self, watcher: Watcher, audience: Audience) -> None:
        """From now on `watcher` gets every Mutation of this audience; it is in at most one audience."""
        self.remove(watcher)
        listener = self._watchers[audience][watcher] = watcher.listener
        listeners = self._listeners[audience]
        listeners[listener] = listeners.get(listener, 0) + 1

    def remove(self, watcher: Watcher) -> None:
        """Idempotent."""
        for audience, watchers in self._watchers.items():
            listener = watchers.pop(watcher, None)
            if listener is not None:
                listeners = self._listeners[audience]
                listeners[listener] -= 1
                if not listeners[listener]:
                    del listeners[listener]

    def publish(self, mutation: Mutation, *, internal: bool = False) -> None:
        """Numbers the Mutation and gives it to everyone; an internal one to the audience `all` only (M4)."""
        for audience in _audiences(internal):
            self._seq[audience] += 1
            listeners = self._listeners[audience]
            if listeners:
                item = Published(mutation, self.epoch, self._seq[audience])
                for listener in list(listeners):
                    listener.published(item)

    def restarted(self) -> None:
        """Tells every watcher that the Session goes on in another epoch, and forgets them."""
        for watcher in self._forget_all():
            watcher.restarted(self.session_id)

    def end(self, reason: EndReason) -> None:
        """Tells every watcher that nothing more comes, and forgets them."""
        for watcher in self._forget_all():
            watcher.ended(self.session_id, reason)

    def _forget_all(self) -> list[Watcher]:
        forgotten = [watcher for watchers in self._watchers.values() for watcher in watchers]
        for watchers in self._watchers.values():
            watchers.clear()
        for listeners in self._listeners.values():
            listeners.clear()
        return forgotten


def _audiences(internal: bool) -> Iterator[Audience]:
    if not internal:
        yield "visible"
    yield "all"
