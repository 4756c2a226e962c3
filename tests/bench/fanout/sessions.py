"""One Session that holds nothing and only publishes: what the gateway's own cost is measured with."""

from typing import Any

from turnwire.sessions.channel import Channel, SnapshotFrames, Watcher
from turnwire.sessions.snapshots import snapshot_frames
from turnwire_protocol.codes import RequestError
from turnwire_protocol.messages import Config, Page, Session


class OneSession:
    """The verbs that a subscriber needs; any other is `not_found`."""

    def __init__(self, session_id: str, epoch: str) -> None:
        self.channel = Channel(session_id, epoch)
        self._session = Session(
            session_id=session_id, config=Config(), created_at=1, updated_at=1, message_count=0, executing=True
        )

    def __getattr__(self, verb: str) -> Any:
        async def refuse(*_: Any, **__: Any) -> Any:
            raise RequestError("not_found", f"{verb}: not served by the benchmark")

        return refuse

    async def join(self, session_id: str, watcher: Watcher, *, limit: int = 50, include_internal: bool = False) -> None:
        self.channel.add(watcher, "visible")
        watcher.joined(self._snapshot())

    def leave(self, session_id: str, watcher: Watcher) -> None:
        self.channel.remove(watcher)

    def _snapshot(self) -> SnapshotFrames:
        return snapshot_frames(
            session=self._session,
            epoch=self.channel.epoch,
            seq=self.channel.seq("visible"),
            page=Page(items=(), total=0, has_more=False),
            turn=None,
            queue=(),
            interactions=(),
            part_bytes=256 * 1024,
        )
