"""The preview of a Session's row while the Session is in memory: the same that the store finds in its Messages (M5).

Plain and synchronous. Only the open Message can lose its text again (T6), so the newest text of all others is enough to
fall back on.
"""

from turnwire.store.base import SessionRecord, preview_of
from turnwire_protocol.messages import AgentMessage, Message


class Preview:
    """`text` is that of the newest Message that has one."""

    def __init__(self, record: SessionRecord) -> None:
        # Where the text of the row stands is not known, but whatever comes stands behind it.
        self._settled = (record.message_count, record.preview)
        self._open: tuple[int, str | None] = (0, None)

    @property
    def text(self) -> str | None:
        texts = (text for _, text in sorted((self._settled, self._open), reverse=True) if text is not None)
        return next(texts, None)

    def stored(self, message: Message) -> None:
        """A Message, or its next revision, was committed."""
        place = (message.sequence, preview_of(message))
        if isinstance(message, AgentMessage) and message.state == "streaming":
            self._open = place
            return
        if message.sequence == self._open[0]:
            self._open = (0, None)
        if place[1] is not None and message.sequence > self._settled[0]:
            self._settled = place
