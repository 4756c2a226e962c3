"""Titles: a Session that nobody named gets a name after its first completed exchange (L3).

Asked for in the background, once in the life of a Session in memory. No Action records it, and a failure leaves
nothing but its warnings (T5).
"""

import logging
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from turnwire.context.composer import HistoryBounds
from turnwire.context.titles import clean_title, title_request
from turnwire.models.base import ModelError
from turnwire.sessions.background import ask
from turnwire.sessions.mailbox import Chore
from turnwire.store.base import NotFound, StoreUnavailable

if TYPE_CHECKING:
    from turnwire.sessions.session import Session

_log = logging.getLogger(__name__)


class Titles:
    """The title of one Session; a part of the Session, in its task."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._asked = False
        self.running = False

    def exchanged(self) -> None:
        """A Turn was completed: the user has said something, and got an answer."""
        session = self._session
        if session.env.titles and session.record.title is None and not self._asked:
            self._asked = self.running = True
            # A title is for all to see: it is made of what all may read.
            session.nursery.start_soon(self._run, structs.replace(session.loop.bounds(), internal=False))

    async def _run(self, bounds: HistoryBounds) -> None:
        title: str | None = None
        try:
            messages = await self._session.env.composer.compose(bounds)
            title = clean_title(await ask(self._session, "title", title_request(messages)))
        except ModelError as error:
            _log.info("session %(session_id)s got no title: %(code)s", self._fields(code=error.code))
        except (StoreUnavailable, NotFound) as error:
            _log.error("session %(session_id)s got no title: %(error)s", self._fields(error=error))
        except Exception:  # noqa: BLE001 - nobody waits for a title: that it fails must not end a Turn
            _log.exception("session %(session_id)s got no title", self._fields())
        self._session.mailbox.post(Chore(partial(self._ended, title)))

    async def _ended(self, title: str | None) -> None:
        self.running = False
        if title is None or self._session.record.title is not None:
            return  # somebody was faster
        try:
            await self._session.details.set_title(title)
        except StoreUnavailable as error:
            _log.error("the title of session %(session_id)s cannot be stored: %(error)s", self._fields(error=error))

    def _fields(self, **more: object) -> dict[str, object]:
        return {"session_id": self._session.session_id, **more}
