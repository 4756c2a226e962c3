"""Details: title, config and archive of a Session, and how each change of them is told (M9, A3, L3).

Runs in the Session's task.
"""

from typing import TYPE_CHECKING, Any

from msgspec import structs

from turnwire.sessions.actions import action, record
from turnwire.sessions.configs import changed
from turnwire.store.base import Operation, SessionRecord, UpdateSession
from turnwire_protocol.frames import ConfigChange
from turnwire_protocol.messages import Session as SessionFrame
from turnwire_protocol.mutations import SessionConfig, SessionTitle
from turnwire_protocol.parts import ActionPart

if TYPE_CHECKING:
    from turnwire.sessions.session import Session


class Details:
    """The details of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._env = session.env

    async def update(
        self, *, title: str | None = None, config: ConfigChange | None = None, archived: bool | None = None
    ) -> SessionFrame:
        """Changes title, config, or whether it is archived; stored with the Actions that record it, then published
        (M9, A3).
        """
        before = self._session.record
        settings = changed(before.config, config)
        named = before.title if title is None else title
        changes = structs.replace(before, title=named, config=settings)
        if archived is not None and archived != (before.archived_at is not None):
            changes = structs.replace(changes, archived_at=self._env.now() if archived else None)
        if changes != before:
            await self._change(changes, self._actions(before, changes))
        return self._session.frame()

    def _actions(self, before: SessionRecord, after: SessionRecord) -> list[ActionPart]:
        """What history says of the change."""
        said: list[tuple[str, str, dict[str, Any]]] = []
        if after.title != before.title:
            said.append(("title-change", f"Renamed to {after.title}", {"title": after.title}))
        model, mode = after.config.model, after.config.approval_mode
        if model != before.config.model:
            said.append(("model-change", f"Model: {model}", {"model": model}))
        if mode != before.config.approval_mode:
            said.append(("approval-mode-change", f"Approval mode: {mode}", {"approval_mode": mode}))
        return [action(self._env, action_type, title, data=data) for action_type, title, data in said]

    def brought_back(self) -> list[Operation]:
        """What takes an archived Session out of the archive, for a commit that gives reason to."""
        if self._session.record.archived_at is None:
            return []
        return [UpdateSession(structs.replace(self._session.record, archived_at=None, updated_at=self._touched()))]

    async def set_title(self, title: str) -> None:
        """A title that nobody chose: stored and published, but no Action of anyone (L3)."""
        await self._change(structs.replace(self._session.record, title=title), [])

    async def _change(self, after: SessionRecord, actions: list[ActionPart]) -> None:
        session = self._session
        before = session.record
        operation = UpdateSession(structs.replace(after, updated_at=self._touched()))
        if actions:
            await record(session, actions, operation)
        else:
            await session.commit([operation])
        if session.record.title != before.title and session.record.title is not None:
            session.publish(SessionTitle(**session.envelope(), title=session.record.title))
        if session.record.config != before.config:
            session.publish(SessionConfig(**session.envelope(), config=session.record.config))

    def _touched(self) -> int:
        return max(self._env.now(), self._session.record.updated_at)
