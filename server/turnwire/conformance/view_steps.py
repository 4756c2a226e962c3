"""Steps about what clients have seen: their views, and the pages of history."""

from functools import partial
from typing import Final

from turnwire.conformance.compare import check_history, comparable, difference, state_of
from turnwire.conformance.patterns import Mismatch, match
from turnwire.conformance.scene import Doing, Scene
from turnwire.conformance.shapes import Map
from turnwire.conformance.verdict import Broken
from turnwire_protocol import server_steps as steps
from turnwire_protocol.view import SessionView

MAX_PAGES: Final = 1_000
"""A history that has more pages than this goes round in circles."""


class ViewSteps:
    """Views and history of a timeline's clients."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.doing: Doing = {
            steps.View: self._view,
            steps.Equal: self._equal,
            steps.History: self._history,
        }

    async def _view(self, step: steps.View) -> None:
        peer = self._scene.peer(step.by)
        view = peer.view(self._scene.filled(step.session))

        def like() -> bool:
            try:
                match(step.state, state_of(view), self._scene.variables)
            except Mismatch as mismatch:
                self._scene.last = str(mismatch)
                return False
            return True

        if not await peer.until(like):
            raise Mismatch(f"the connection ended with {peer.link.code}: {self._scene.last}")

    async def _equal(self, step: steps.Equal) -> None:
        session_id = self._scene.filled(step.session)
        peers = [self._scene.peer(name) for name in step.clients]
        views = [peer.view(session_id) for peer in peers]

        def place() -> tuple[str | None, int]:
            return max((view.epoch, view.seq) for view in views if view.status == "live")

        def arrived(view: SessionView) -> bool:
            return view.status == "live" and (view.epoch, view.seq) == place()

        while not all(map(arrived, views)):  # while one arrives another may have gone on
            for peer, view in zip(peers, views, strict=True):
                self._scene.last = f"client {peer.name} is {view.status} at {view.epoch}/{view.seq}"
                if not await peer.until(partial(arrived, view)):
                    raise Mismatch(f"client {peer.name}'s connection ended with {peer.link.code}")
        start = max((view.messages[0]["sequence"] for view in views if view.messages), default=1)
        first = comparable(views[0], start)
        for peer, view in zip(peers[1:], views[1:], strict=True):
            other = comparable(view, start)
            if first != other:
                raise Mismatch(f"the views of {peers[0].name} and {peer.name} differ: {difference(first, other)}")

    async def _history(self, step: steps.History) -> None:
        peer = self._scene.peer(step.by)
        session_id = self._scene.filled(step.session)
        items: list[Map] = []
        before: Map = {}
        for _ in range(MAX_PAGES):
            request = {"op": "messages", "session_id": session_id, "limit": step.limit, **before}
            page = (await self._scene.answered(peer, await peer.send(request), {}, None))["result"]
            if len(page["items"]) > step.limit:
                raise Broken("M2", f"a page of {len(page['items'])} items, {step.limit} were asked for")
            items = [*page["items"], *items]
            if not page["has_more"]:
                break
            before = {"before_sequence": page["next_before_sequence"]}
        else:
            raise Broken("M3", "the pages have no end")
        check_history(items, page["total"], peer.views.get(session_id))
        if step.messages is not None:
            match(step.messages, items, self._scene.variables)
