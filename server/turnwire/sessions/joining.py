"""Joining: what those who begin to follow a Session are given, made once for each state (W4, W7).

A snapshot is the newest stored Messages, overlaid with what is only in memory. It is taken in the Session's task, so it
stands between two Mutations.
"""

from typing import TYPE_CHECKING

from turnwire.sessions.channel import Audience, SnapshotFrames, Watcher
from turnwire.sessions.snapshots import page_frame, snapshot_frames
from turnwire.store.base import MAX_PAGE, StoredPage
from turnwire_protocol.messages import AgentMessage

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

KEPT_PAGES = 2
"""For how many limits the newest page and the snapshot made of it are kept for the next one who joins."""

FORMATS = 2
"""In how many formats a snapshot may be encoded."""


class Joining:
    """The snapshots of one Session; a part of the Session."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._pages: dict[tuple[int, Audience], StoredPage] = {}
        self._snapshots: dict[tuple[int, Audience], SnapshotFrames] = {}

    def stored(self) -> None:
        """History has changed."""
        self.forget()

    def changed(self) -> None:
        """Something that a snapshot shows has changed."""
        self._snapshots.clear()

    def forget(self) -> None:
        """What was kept for the next who joins leaves memory at once, not when the collector finds the Session."""
        self._pages.clear()
        self._snapshots.clear()
        self._session.env.shelf.dropped(self)

    async def join(self, watcher: Watcher, *, limit: int, include_internal: bool) -> None:
        """Gives `watcher` a snapshot and, from that very point on, every Mutation (W4).

        Where the caller is cancelled before that point, nothing is given: it can no longer take the watcher out.
        """
        gone = False

        async def join() -> None:
            audience: Audience = "all" if include_internal else "visible"
            frames = await self._snapshot(limit, audience)
            if not gone:
                self._session.channel.add(watcher, audience)
                watcher.joined(frames)

        try:
            await self._session.do(join)
        finally:
            gone = True

    async def _snapshot(self, limit: int, audience: Audience) -> SnapshotFrames:
        """Built once for each state, however many join at it."""
        key = (limit, audience)
        if key not in self._pages:
            page = await self._newest(limit, include_internal=audience == "all")
            if len(self._pages) >= KEPT_PAGES:  # clients choose limits, but not how much memory they take
                self.forget()
            self._pages[key] = page
        if key not in self._snapshots:
            self._snapshots[key] = self._frames(self._pages[key], audience)
        self._session.env.shelf.used(self, self._kept_bytes())
        return self._snapshots[key]

    def _frames(self, page: StoredPage, audience: Audience) -> SnapshotFrames:
        return snapshot_frames(
            session=self._session.frame(),
            epoch=self._session.channel.epoch,
            seq=self._session.channel.seq(audience),
            page=page_frame(page, live=self._live_message()),
            turn=self._session.loop.active_frame(),
            queue=self._session.loop.queue_frame(),
            interactions=self._session.interactions.pending(),
            part_bytes=self._session.env.limits.snapshot_part_bytes,
        )

    async def _newest(self, limit: int, *, include_internal: bool) -> StoredPage:
        """The newest Messages, beyond `limit` down to the streaming one: clients must hold what changes (W4)."""
        page = await self._session.env.store.page(
            self._session.session_id, before_sequence=None, limit=limit, include_internal=include_internal
        )
        live = self._session.projection
        while live is not None and page.has_more and (above := page.items[0].sequence - live.sequence) > 0:
            older = await self._session.env.store.page(
                self._session.session_id,
                before_sequence=page.items[0].sequence,
                limit=min(above, MAX_PAGE),
                include_internal=include_internal,
            )
            page = StoredPage(items=older.items + page.items, total=page.total, has_more=older.has_more)
        return page

    def _live_message(self) -> AgentMessage | None:
        return None if self._session.projection is None else self._session.projection.message()

    def _kept_bytes(self) -> int:
        """What pages and snapshots take at most, as near as it need be known."""
        stored = sum(len(item.json.text) for page in self._pages.values() for item in page.items)
        shown = [item for frames in self._snapshots.values() for part in frames.parts for item in part.page.items]
        return stored + FORMATS * sum(len(item.text) for item in shown)
