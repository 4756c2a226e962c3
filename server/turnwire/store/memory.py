"""The Store in memory: the same rules without a file, for tests in virtual time and servers that keep nothing.

It uses no threads, so trio's autojump clock waits for it. Its rules are those of the database's constraints, proved by
the same contract suite.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import trio

from turnwire.store.base import (
    ConstraintViolated,
    NotFound,
    Operation,
    Recovered,
    RequestRecord,
    SaveTurn,
    Scope,
    SessionListing,
    SessionRecord,
    StoredMessage,
    StoredPage,
    StoreUnavailable,
    TooManySessions,
    TurnRecord,
)
from turnwire.store.context_memory import MemoryContextStore
from turnwire.store.memory_tables import Tables
from turnwire.store.paging import END, check_before, check_limit, decode_cursor, fill_listing, fill_page
from turnwire.store.recovery import new_id, recover_session, summed
from turnwire.store.rows import (
    MessageRow,
    Prepared,
    message_json,
    plain_message,
    prepare,
    recovered_row,
)
from turnwire_protocol.messages import StoredJson


@asynccontextmanager
async def open_memory() -> AsyncGenerator["MemoryStore"]:
    """An empty store, closed at the end of the block."""
    store = MemoryStore()
    try:
        yield store
    finally:
        await store.aclose()


class MemoryStore:
    """A `Store` that forgets everything when it is closed. `commits` counts committed calls of `commit`."""

    def __init__(self) -> None:
        self.commits = 0
        self._tables = Tables()
        self._closed = False

    @property
    def context(self) -> MemoryContextStore:
        return MemoryContextStore(self, self._tables.summaries)

    @property
    def problem(self) -> str | None:
        return "the store is closed" if self._closed else None

    async def commit(self, operations: Sequence[Operation]) -> None:
        prepared = [prepare(operation) for operation in operations]
        await self.enter()
        self._store(prepared)

    async def session(self, session_id: str) -> SessionRecord:
        await self.enter()
        return self._tables.complete(self._tables.session(session_id))

    async def sessions(
        self, *, before: str | None, limit: int, archived: bool, scope: Scope | None = None
    ) -> SessionListing:
        check_limit(limit)
        cursor = None if before is None else decode_cursor(before)
        await self.enter()
        after = None if cursor is None else (-cursor.updated_at, cursor.session_id)
        places = sorted(
            (-record.updated_at, record.session_id)
            for record in self._tables.sessions.values()
            if (record.archived_at is not None) == archived and (scope is None or scope.covers(record))
        )
        chosen = [session_id for place, session_id in places if after is None or (place, session_id) > after]
        records = [self._tables.complete(self._tables.session(session_id)) for session_id in chosen[: limit + 1]]
        return fill_listing(records, limit)

    async def page(
        self, session_id: str, *, before_sequence: int | None, limit: int, include_internal: bool
    ) -> StoredPage:
        check_limit(limit)
        check_before(before_sequence)
        await self.enter()
        total = self._tables.session(session_id).message_count
        below = END if before_sequence is None else before_sequence
        rows = self._tables.newest_first(session_id, min(below, total + 1))
        return fill_page(
            (_stored(row) for row in rows if include_internal or row.visibility == "visible"), limit=limit, total=total
        )

    async def turn(self, turn_id: str) -> TurnRecord | None:
        await self.enter()
        return self._tables.turns.get(turn_id)

    async def request(self, session_id: str, client_request_id: str) -> RequestRecord | None:
        await self.enter()
        return self._tables.requests.get((session_id, client_request_id))

    async def interaction(self, session_id: str, interaction_id: str) -> StoredJson | None:
        await self.enter()
        return self._tables.interaction(session_id, interaction_id)

    async def recover(self, now: int, *, session_id: str | None = None) -> Recovered:
        await self.enter()
        chosen = self._tables.unfinished_sessions() if session_id is None else [session_id]
        return summed([self._recover_one(each, now) for each in chosen])

    async def aclose(self) -> None:
        self._closed = True
        await trio.lowlevel.checkpoint()

    async def enter(self) -> None:
        """What every call begins with. Raises StoreUnavailable when the store is closed."""
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise StoreUnavailable("the store is closed")

    def _recover_one(self, session_id: str, now: int) -> Recovered:
        record = self._tables.session(session_id)
        unfinished = [row for row in self._tables.messages.values() if row.unfinished and row.session_id == session_id]
        recovery = recover_session(
            session_id,
            [plain_message(_stored(row).json) for row in unfinished],
            [turn for turn in self._tables.unfinished_turns() if turn.session_id == session_id],
            last_sequence=record.message_count,
            now=now,
            new_id=new_id,
        )
        previews = {row.message_id: row.preview for row in unfinished}
        rows = [recovered_row(message, previews.get(message["message_id"])) for message in recovery.messages]
        self._store([*rows, *map(SaveTurn, recovery.turns)])
        return recovery.counted()

    def _store(self, operations: Sequence[Prepared]) -> None:
        if not operations:
            return
        try:
            for operation in operations:
                self._tables.apply(operation)
        except (ConstraintViolated, NotFound, TooManySessions):
            self._tables.roll_back()
            raise
        self._tables.keep()
        self.commits += 1


def _stored(row: MessageRow) -> StoredMessage:
    json = message_json(row.head, b",".join(part.json for part in row.parts))
    return StoredMessage(message_id=row.message_id, sequence=row.sequence, revision=row.revision, json=json)
