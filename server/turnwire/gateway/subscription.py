"""A subscription: one client's place at one Session, from the Session's Mutations to the client's outbox (W4-W6)."""

import logging

from turnwire.gateway.fanout import Fanout, Feed
from turnwire.gateway.stream import FrameStream
from turnwire.gateway.wire import wire_frame, wire_parts_of
from turnwire.sessions.channel import EndReason, SnapshotFrames
from turnwire_protocol.codec import Format
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ReloadNotice, Result, Unsubscribed

_log = logging.getLogger(__name__)


class Subscription:
    """A `Watcher` for one (connection, Session). Mutations reach the client through the feed that its kind shares."""

    __slots__ = (
        "_fanout",
        "_feed",
        "_format",
        "_stream",
        "answering",
        "ended_by_server",
        "include_internal",
        "limit",
        "session_id",
    )

    def __init__(self, session_id: str, stream: FrameStream, fanout: Fanout, format: Format) -> None:
        self.session_id = session_id
        self.limit = 0
        self.include_internal = False
        """As the client asked in its last `subscribe`; `reload` asks for the same again."""
        self.answering: int | None = None
        """The `subscribe` or `reload` request that the next snapshot answers."""
        self.ended_by_server = False
        self._stream = stream
        self._fanout = fanout
        self._feed: Feed | None = None
        self._format: Format = format

    def close(self) -> None:
        """Nothing more goes to the client, nor what has not been sent yet. Idempotent."""
        self._leave_feed()
        self._stream.outbox.end_session(self.session_id)

    # ----------------------------------------------------------------------------------------------- as a `Watcher`

    @property
    def listener(self) -> Feed:
        """The feed that it shares with others of its kind."""
        return self._fanout.feed((self.session_id, self.include_internal, self._format))

    def joined(self, snapshot: SnapshotFrames) -> None:
        """Answers the request, then sends the snapshot: nothing can come between (W4)."""
        if self.ended_by_server:
            return  # while the Session was being read; whoever asked to join it leaves it again
        parts = wire_parts_of(snapshot, self._format)
        request_id, self.answering = self.answering, None
        if max(map(len, parts)) > self._fanout.max_frame:
            _log.error(
                "a snapshot of session %(session_id)s has a part above max_frame and is not sent",
                {"session_id": self.session_id},
            )
            error = RequestError("too_large", "the Session's state does not fit into frames of max_frame bytes")
            self._stream.feed(wire_frame(error.frame(request_id), self._format))
            self.close()
            return
        self._join_feed()
        if request_id is not None:
            self._stream.feed(wire_frame(Result(request_id, snapshot.joined), self._format))
        self._stream.outbox.begin_snapshot(self.session_id, parts)
        self._stream.pump()

    def restarted(self, session_id: str) -> None:
        """Tells the client to ask for a new snapshot; the subscription stands, but nothing comes until then (W7)."""
        self._leave_feed()
        self._stream.outbox.interrupt(session_id, wire_frame(ReloadNotice(session_id, "restarted"), self._format))
        self._stream.pump()

    def ended(self, session_id: str, reason: EndReason) -> None:
        """Tells the client that nothing more comes."""
        self.ended_by_server = True
        self._leave_feed()
        self._stream.outbox.end_session(session_id, wire_frame(Unsubscribed(session_id, reason), self._format))
        self._stream.pump()

    def _join_feed(self) -> None:
        if self._feed is not None:
            # What was said before belongs before the snapshot: a client that is live would miss it otherwise.
            self._feed.flush()
        self._leave_feed()
        self._feed = self.listener
        self._feed.join(self._stream)

    def _leave_feed(self) -> None:
        if self._feed is not None:
            self._feed.leave(self._stream)
            self._feed = None
