"""The tables of the Store in memory: the rules that a database's constraints hold, and the way back from a commit that
fails half-way.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from turnwire.store.base import (
    FORGOTTEN_AT_ONCE,
    REQUEST_MEMORY_MS,
    ConstraintViolated,
    CreateSession,
    DeleteSession,
    ForkSession,
    NotFound,
    RequestRecord,
    SaveRequest,
    SaveTurn,
    SessionRecord,
    TooManySessions,
    TurnRecord,
    UpdateSession,
)
from turnwire.store.context import Summary
from turnwire.store.recovery import new_id
from turnwire.store.rows import (
    COPY_ID,
    UNFINISHED_TURN,
    MessageRow,
    Prepared,
    checked_through,
)
from turnwire_protocol.lifecycle import TURN
from turnwire_protocol.messages import Origin, StoredJson

_K = TypeVar("_K")
_V = TypeVar("_V")


class Tables:
    """What is kept, under the database's rules, and the way back from a commit that fails half-way."""

    def __init__(self) -> None:
        self.sessions: dict[str, SessionRecord] = {}
        self.messages: dict[str, MessageRow] = {}
        self.timeline: dict[tuple[str, int], str] = {}  # (session_id, sequence) -> message_id
        self.part_owners: dict[tuple[str, str], str] = {}  # (session_id, part_id) -> message_id
        self.turns: dict[str, TurnRecord] = {}
        self.requests: dict[tuple[str, str], RequestRecord] = {}
        self.summaries: dict[tuple[str, int], Summary] = {}  # (session_id, through_sequence) -> summary
        self._undo: list[Callable[[], object]] = []

    def apply(self, operation: Prepared) -> None:
        """Raises ConstraintViolated or NotFound; then `roll_back` must follow."""
        match operation:
            case MessageRow():
                self._save_message(operation)
            case CreateSession(record, most):
                self._create_session(record, most)
            case UpdateSession(record):
                self._update_session(record)
            case DeleteSession(session_id):
                self._delete_session(session_id)
            case ForkSession():
                self._fork(operation)
            case SaveTurn(record):
                self._save_turn(record)
            case SaveRequest(record):
                self._save_request(record)

    def keep(self) -> None:
        self._undo.clear()

    def roll_back(self) -> None:
        while self._undo:
            self._undo.pop()()

    def session(self, session_id: str) -> SessionRecord:
        record = self.sessions.get(session_id)
        if record is None:
            raise NotFound(f"session {session_id} does not exist")
        return record

    def complete(self, record: SessionRecord) -> SessionRecord:
        """The record with its preview, which is that of its newest Message that has one."""
        newest = self.newest_first(record.session_id, record.message_count + 1)
        return replace(record, preview=next((row.preview for row in newest if row.preview is not None), None))

    def newest_first(self, session_id: str, below: int) -> Iterator[MessageRow]:
        for sequence in range(below - 1, 0, -1):
            yield self.messages[self.timeline[session_id, sequence]]

    def interaction(self, session_id: str, interaction_id: str) -> StoredJson | None:
        for row in self.messages.values():
            for part in row.parts:
                if (
                    row.session_id == session_id
                    and part.type == "interaction"
                    and msgspec.json.decode(part.json)["interaction_id"] == interaction_id
                ):
                    return StoredJson(part.json)
        return None

    def unfinished_turns(self) -> list[TurnRecord]:
        return [turn for turn in self.turns.values() if turn.status in UNFINISHED_TURN]

    def unfinished_sessions(self) -> list[str]:
        """Those that recovery has to bring to rest (S7)."""
        messages = (row.session_id for row in self.messages.values() if row.unfinished)
        return list(dict.fromkeys([*messages, *(turn.session_id for turn in self.unfinished_turns())]))

    def _create_session(self, record: SessionRecord, most: int | None) -> None:
        self._check_owned(record.owner, most)
        _require(record.session_id not in self.sessions, f"session {record.session_id}: the id is taken")
        self._put(self.sessions, record.session_id, record)

    def _check_owned(self, owner: str | None, most: int | None) -> None:
        owned = sum(record.owner == owner for record in self.sessions.values())
        if most is not None and owned >= most:
            raise TooManySessions(f"{owner} owns {owned} sessions")

    def _update_session(self, record: SessionRecord) -> None:
        kept = self.session(record.session_id)
        updated = replace(
            kept,
            title=record.title,
            config=record.config,
            metadata=record.metadata,
            archived_at=record.archived_at,
            updated_at=record.updated_at,
        )
        self._put(self.sessions, record.session_id, updated)

    def _delete_session(self, session_id: str) -> None:
        self.session(session_id)
        for row in [row for row in self.messages.values() if row.session_id == session_id]:
            self._drop(self.messages, row.message_id)
            self._drop(self.timeline, (session_id, row.sequence))
            for part in row.parts:
                self._drop(self.part_owners, (session_id, part.part_id))
        for turn in [turn for turn in self.turns.values() if turn.session_id == session_id]:
            self._drop(self.turns, turn.turn_id)
        for key in [key for key in self.requests if key[0] == session_id]:
            self._drop(self.requests, key)
        for place in [place for place in self.summaries if place[0] == session_id]:
            self._drop(self.summaries, place)
        self._drop(self.sessions, session_id)

    def _fork(self, operation: ForkSession) -> None:
        old, new = self.session(operation.session_id), operation.new_session_id
        _require(new not in self.sessions, f"session {new}: the id is taken")
        rows = [self.messages[self.timeline[old.session_id, n]] for n in range(1, old.message_count + 1)]
        through = next((row.sequence for row in rows if row.unfinished), old.message_count + 1) - 1
        if operation.through_message_id is not None:
            named = next((row.sequence for row in rows if row.message_id == operation.through_message_id), None)
            through = checked_through(operation, named, through)
        self._check_owned(operation.owner, operation.most)
        origin = Origin(old.session_id, rows[through - 1].message_id if through else UNSET)
        fork = SessionRecord(
            session_id=new,
            owner=operation.owner,
            title=old.title,
            config=old.config,
            metadata=old.metadata,
            created_at=operation.now,
            updated_at=operation.now,
            origin=origin,
        )
        self._put(self.sessions, new, fork)
        for row in rows[:through]:
            self._save_message(_copied(row, new))
        for (session_id, sequence), summary in list(self.summaries.items()):
            if session_id == old.session_id and sequence <= through:
                self._put(self.summaries, (new, sequence), replace(summary, session_id=new))

    def _save_message(self, row: MessageRow) -> None:
        session = self.session(row.session_id)
        old = self.messages.get(row.message_id)
        count = session.message_count
        if old is None:
            _require(row.sequence == count + 1, "a new Message takes the next sequence of its Session (M5)")
            count = row.sequence
            self._put(self.timeline, (row.session_id, row.sequence), row.message_id)
        else:
            self._check_next_message(old, row)
            for part_id in {part.part_id for part in old.parts} - {part.part_id for part in row.parts}:
                self._drop(self.part_owners, (row.session_id, part_id))
        for part in row.parts:
            owner = self.part_owners.get((row.session_id, part.part_id), row.message_id)
            _require(owner == row.message_id, f"part {part.part_id}: belongs to message {owner} (P1)")
            self._put(self.part_owners, (row.session_id, part.part_id), row.message_id)
        self._put(self.messages, row.message_id, row)
        updated_at = max(session.updated_at, row.updated_at)
        self._put(self.sessions, row.session_id, replace(session, message_count=count, updated_at=updated_at))

    def _check_next_message(self, old: MessageRow, new: MessageRow) -> None:
        same = all(
            getattr(old, name) == getattr(new, name) for name in ("session_id", "sequence", "role", "created_at")
        )
        _require(same, "message_id, session_id, sequence, role and created_at of a Message never change (M5)")
        _require(new.revision > old.revision, "the revision of a Message only grows (M5)")
        sequences = {part.part_id: part.sequence for part in old.parts}
        moved = [part.part_id for part in new.parts if sequences.get(part.part_id, part.sequence) != part.sequence]
        _require(not moved, f"parts {moved}: the sequence of a Part never changes (P1)")

    def _save_turn(self, record: TurnRecord) -> None:
        self.session(record.session_id)
        old = self.turns.get(record.turn_id)
        if old is None:
            _require(record.status in TURN.initial, "a new Turn is queued or running (T2)")
        else:
            follows = record.status in TURN.moves[old.status]
            _require(follows, "a Turn is started once and finished once (T2)")
            same = (old.session_id, old.created_at) == (record.session_id, record.created_at)
            same = same and old.started_at in (None, record.started_at)
            _require(same, "turn_id, session_id, created_at and started_at of a Turn never change (T2)")
        self._put(self.turns, record.turn_id, record)

    def _save_request(self, record: RequestRecord) -> None:
        self.session(record.session_id)
        key = (record.session_id, record.client_request_id)
        _require(key not in self.requests, f"request {record.client_request_id}: is known (S9)")
        self._put(self.requests, key, record)
        before = record.created_at - REQUEST_MEMORY_MS
        old = [(request.created_at, key) for key, request in self.requests.items() if request.created_at <= before]
        for _, key in sorted(old)[:FORGOTTEN_AT_ONCE]:
            self._drop(self.requests, key)

    def _put(self, table: dict[_K, _V], key: _K, value: _V) -> None:
        if key in table:
            old = table[key]
            self._undo.append(lambda: table.update({key: old}))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def _drop(self, table: dict[_K, _V], key: _K) -> None:
        old = table.pop(key)
        self._undo.append(lambda: table.update({key: old}))


def _copied(row: MessageRow, session_id: str) -> MessageRow:
    """The row of a Message's copy in a fork."""
    message_id = f"{COPY_ID}{new_id()}"
    origin = {"session_id": row.session_id, "message_id": row.message_id}
    head = {**msgspec.json.decode(row.head), "message_id": message_id, "session_id": session_id, "origin": origin}
    return replace(row, message_id=message_id, session_id=session_id, head=msgspec.json.encode(head))


def _require(condition: bool, rule: str) -> None:
    if not condition:
        raise ConstraintViolated(rule)
