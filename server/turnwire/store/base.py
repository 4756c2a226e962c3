"""The `Store`: what a Session needs kept, and the rules that every implementation obeys.

Nothing above this package knows SQL; nothing in it knows Sessions' tasks, sockets or models.

Rules of every Store (the contract suite proves them for each implementation):

1. `commit` is atomic: all of its operations are stored, or none, and it returns only when they are durable. A caller
   that is cancelled while it waits does not cancel the commit: it may have happened, so callers shield what must be
   known (S9).
2. Reads see committed state only, all of one point in time, never a half-done commit (M1).
3. Within a Session, Message `sequence` is 1, 2, 3, ... without holes, `revision` only grows, and `message_id`,
   `sequence`, `role` and `created_at` of a Message never change (M5). Part `sequence` never changes (P1).
4. A role never holds the other role's Parts (P2), and an Agent Message always has at least one Part (M10).
5. A Turn is started once and finished once (T1, T2).
6. JSON that was stored is given back as it was, unknown fields included (P2).
7. A broken rule raises `ConstraintViolated` and stores nothing. A store that cannot write raises `StoreUnavailable`
   and stores nothing; it says so in `problem` until it can write again. So it does after a read that raised
   `StoreUnavailable`, until the same read works.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from msgspec import Struct

from turnwire_protocol.messages import Config, Message, Origin, StoredJson
from turnwire_protocol.mutations import TurnError, TurnStatus
from turnwire_protocol.parts import TextPart

if TYPE_CHECKING:
    from turnwire.store.context import ContextStore

REVISION_STRIDE = 2**30
"""Revisions that recovery skips above the stored one, so that none that a client saw live is used again (S6)."""

PART_STRIDE = 2**20
"""Part sequences that recovery skips, for the same reason: live Parts of an unfinished Step are not stored."""

REQUEST_MEMORY_MS = 30 * 24 * 60 * 60 * 1000
"""For how long a `client_request_id` is remembered at least (S9)."""

FORGOTTEN_AT_ONCE = 8
"""How many requests that are older go with each one that is saved: more than come, so that their number falls."""

DEFAULT_PAGE = 50
"""How many Messages a page holds when nobody says (M2)."""

MAX_PAGE = 200
"""The most Messages that one page holds (M2)."""

PAGE_BYTES = 512 * 1024
"""The most bytes of Message JSON that one page holds, but a page that is not at the end holds at least one (W10).

At 50 kB/s such an answer takes less time than a tick interval, so a slow client still gets its ticks (R4)."""

PREVIEW_CHARACTERS = 120
"""How much of the newest visible text a Session's `preview` keeps."""


class ConstraintViolated(Exception):
    """A commit broke a rule of the Store; nothing of it was stored. The caller is at fault."""


class TooManySessions(Exception):
    """The owner has as many Sessions as it may have; nothing was stored."""


class StoreUnavailable(Exception):
    """The store cannot write or read now (disk full, I/O error, damaged file); nothing was stored."""


class StoreLocked(Exception):
    """Another process serves this database file. The sentence names the file and the owner."""


class StoreIncompatible(Exception):
    """The file is no Turnwire database, or one of a newer version than this program knows."""


class NotFound(Exception):
    """The Session does not exist, or was deleted."""


class MessageNotFound(NotFound):
    """The Session has no Message of this id."""


class MessageOpen(ConstraintViolated):
    """The Message, or one before it, is still being written."""


# ------------------------------------------------------------------------------------------------------- what is kept


class SessionRecord(Struct, kw_only=True, frozen=True):
    """A Session's row. Times are ms since the epoch; `message_count` is also the last Message `sequence` (M5).

    `owner` is the principal that created it, and never changes; None in a file from before there were owners.
    """

    session_id: str
    owner: str | None = None
    title: str | None = None
    config: Config
    metadata: StoredJson | None = None
    created_at: int
    updated_at: int
    archived_at: int | None = None
    message_count: int = 0
    preview: str | None = None
    origin: Origin | None = None


class TurnRecord(Struct, kw_only=True, frozen=True):
    """A Turn's row: `queued` until it starts, `running` until it finishes, never a lock (K4)."""

    turn_id: str
    session_id: str
    status: Literal["queued", "running"] | TurnStatus
    created_at: int
    started_at: int | None = None
    finished_at: int | None = None
    error: TurnError | None = None


class RequestRecord(Struct, kw_only=True, frozen=True):
    """What a `client_request_id` was used for: the digest of its body and the answer it got (S9)."""

    session_id: str
    client_request_id: str
    digest: str
    answer: StoredJson
    created_at: int


class StoredMessage(Struct, kw_only=True, frozen=True):
    """One committed Message: its place, and its complete JSON as it goes to clients."""

    message_id: str
    sequence: int
    revision: int
    json: StoredJson


class StoredPage(Struct, kw_only=True, frozen=True):
    """A page of committed history, ascending by `sequence` (M3)."""

    items: tuple[StoredMessage, ...]
    total: int
    has_more: bool


class SessionListing(Struct, kw_only=True, frozen=True):
    """Sessions by newest activity; `next_before` is the cursor for the next page, opaque to clients."""

    items: tuple[SessionRecord, ...]
    next_before: str | None
    has_more: bool


class Scope(Struct, frozen=True):
    """Which Sessions somebody may see: those of an owner, and these in addition."""

    owner: str
    session_ids: frozenset[str] = frozenset()

    def covers(self, record: SessionRecord) -> bool:
        return record.owner == self.owner or record.session_id in self.session_ids


class Recovered(Struct, kw_only=True, frozen=True):
    """What recovery changed: how many Sessions, Messages and Turns (S7)."""

    sessions: int
    messages: int
    turns: int


# --------------------------------------------------------------------------------------------- operations of a commit


class CreateSession(Struct, frozen=True):
    """A new Session. `ConstraintViolated` when the id is taken, `TooManySessions` when its owner has `most` already."""

    record: SessionRecord
    most: int | None = None


class UpdateSession(Struct, frozen=True):
    """Replaces title, config, metadata and archived_at, and sets updated_at; counters stay as they are."""

    record: SessionRecord


class DeleteSession(Struct, frozen=True):
    """Removes a Session and all that belongs to it."""

    session_id: str


class ForkSession(Struct, kw_only=True, frozen=True):
    """A new Session with copies of another one's Messages, the first through `through_message_id`, or all.

    Title, config and metadata are the other's. Messages from the first on that is still being written are not copied. A
    copy has a new `message_id` and an `origin`, and is else as it was: Parts, their ids, `sequence`, `revision`,
    `turn_id` (a Turn of the other Session) and times. Summaries of what is copied come along. `now` is in ms.

    Raises `NotFound` for the other Session, `MessageNotFound`, `MessageOpen` when the Message named cannot be copied,
    `ConstraintViolated` when the new id is taken, and `TooManySessions` when `owner`, who will own it, has `most`.
    """

    session_id: str
    new_session_id: str
    through_message_id: str | None = None
    now: int
    owner: str | None = None
    most: int | None = None


class SaveMessage(Struct, frozen=True):
    """The complete Message. New: takes the next `sequence`. Known: a greater `revision`; Parts not in it are removed.

    The Session's message_count, preview and updated_at follow by themselves.
    """

    message: Message


class SaveTurn(Struct, frozen=True):
    """A new Turn, queued or running, or a Turn's next status as its lifecycle allows (T2)."""

    record: TurnRecord


class SaveRequest(Struct, frozen=True):
    """Remembers a `client_request_id`. `ConstraintViolated` when it is known.

    In its place some of the oldest requests of the whole store are forgotten, FORGOTTEN_AT_ONCE at most, those that
    were saved REQUEST_MEMORY_MS or more before this one.
    """

    record: RequestRecord


Operation: TypeAlias = (
    CreateSession | UpdateSession | DeleteSession | ForkSession | SaveMessage | SaveTurn | SaveRequest
)


class Store(Protocol):
    """Sessions, Messages, Turns and answered requests, kept durably. See the module's rules."""

    @property
    def context(self) -> "ContextStore":
        """What the Composer is given of this store: history to read, summaries to write (C1)."""

    @property
    def problem(self) -> str | None:
        """Why the store cannot write, or read something, at present, as a sentence for `/readyz`; None when it can."""

    async def commit(self, operations: Sequence[Operation]) -> None:
        """Stores all operations in order, atomically and durably (rule 1).

        Raises `ConstraintViolated`, `NotFound` (an unknown Session), `TooManySessions` or `StoreUnavailable`; then
        nothing was stored.
        """

    async def session(self, session_id: str) -> SessionRecord:
        """The Session's row. Raises `NotFound`."""

    async def sessions(
        self, *, before: str | None, limit: int, archived: bool, scope: Scope | None = None
    ) -> SessionListing:
        """Sessions with the newest `updated_at` first; archived ones only, or all others; only those of `scope`.

        `before` is a `next_before` of an earlier listing; ValueError when it is none. `limit` is 1..MAX_PAGE.
        """

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        """The newest `limit` Messages below `before_sequence` (M1-M4), fewer where PAGE_BYTES ends the page.

        Raises `NotFound`. Costs the same however long the Session is.
        """

    async def turn(self, turn_id: str) -> TurnRecord | None:
        """A Turn's row, or None."""

    async def request(self, session_id: str, client_request_id: str) -> RequestRecord | None:
        """What a `client_request_id` was used for in the Session, or None (S9)."""

    async def interaction(self, session_id: str, interaction_id: str) -> StoredJson | None:
        """The `interaction` Part of this id as it was committed last, or None (P7)."""

    async def recover(self, now: int, *, session_id: str | None = None) -> Recovered:
        """Brings every Session that a crash left unfinished to rest (S7), before anything is served.

        With `session_id` only that one: its task has failed, and nothing else may change it meanwhile.

        One transaction a Session, idempotent. Each streaming Agent Message becomes `done`; its text and reasoning
        `done`, its non-terminal Tools and Actions `failed`, its pending Interactions `cancelled`; it gets one `error`
        Part `runtime_interrupted`, at PART_STRIDE above its last Part, and a revision REVISION_STRIDE above the stored
        one. Each unfinished Turn becomes `failed`; one that has no Agent Message to carry the error Part gets a
        Message of its own for it, so that no accepted prompt ends in silence.
        """

    async def aclose(self) -> None:
        """Finishes accepted commits, then closes. Idempotent."""


def preview_of(message: Message) -> str | None:
    """The start of a visible Message's first non-empty text Part, on one line, or None."""
    if message.visibility != "visible":
        return None
    for part in message.parts:
        if isinstance(part, TextPart) and part.text.strip():
            return " ".join(part.text.split())[:PREVIEW_CHARACTERS]
    return None
