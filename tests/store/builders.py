"""Small Messages and records for the store's tests, and a fresh store of either kind."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import msgspec

from turnwire.store.base import (
    CreateSession,
    Operation,
    SaveMessage,
    SaveTurn,
    SessionRecord,
    Store,
    StoredPage,
    TurnRecord,
)
from turnwire.store.memory import MemoryStore, open_memory
from turnwire.store.sqlite import SqliteStore, open_sqlite
from turnwire_protocol.messages import AgentMessage, Config, Message, UserMessage, Visibility
from turnwire_protocol.parts import AgentPart, TextPart, UserPart

Kind: TypeAlias = Literal["memory", "sqlite"]
KINDS: tuple[Kind, ...] = ("memory", "sqlite")
NOW = 1_700_000_000_000


@asynccontextmanager
async def open_store(kind: Kind) -> AsyncGenerator[MemoryStore | SqliteStore]:
    if kind == "memory":
        async with open_memory() as memory:
            yield memory
    else:
        with TemporaryDirectory() as folder:
            async with open_sqlite(Path(folder) / "turnwire.db") as sqlite:
                yield sqlite


def session(session_id: str = "s", **fields: Any) -> SessionRecord:
    given: dict[str, Any] = {"config": Config(), "created_at": NOW, "updated_at": NOW} | fields
    return SessionRecord(session_id=session_id, **given)


def create(session_id: str = "s", **fields: Any) -> CreateSession:
    return CreateSession(session(session_id, **fields))


def text(part_id: str, sequence: int = 1, content: str = "Hello", **fields: Any) -> TextPart:
    return TextPart(part_id=part_id, sequence=sequence, text=content, **fields)


def user(
    sequence: int,
    *,
    session_id: str = "s",
    message_id: str | None = None,
    revision: int = 1,
    parts: Sequence[UserPart] | None = None,
    visibility: Visibility = "visible",
    **fields: Any,
) -> UserMessage:
    message_id = message_id or f"{session_id}-m{sequence}"
    return UserMessage(
        message_id=message_id,
        session_id=session_id,
        sequence=sequence,
        revision=revision,
        visibility=visibility,
        parts=(text(f"{message_id}-p1"),) if parts is None else tuple(parts),
        **{"created_at": NOW, "updated_at": NOW} | fields,
    )


def agent(
    sequence: int,
    *parts: AgentPart,
    session_id: str = "s",
    message_id: str | None = None,
    revision: int = 1,
    state: Literal["streaming", "done"] = "done",
    **fields: Any,
) -> AgentMessage:
    message_id = message_id or f"{session_id}-m{sequence}"
    return AgentMessage(
        message_id=message_id,
        session_id=session_id,
        sequence=sequence,
        revision=revision,
        state=state,
        parts=parts or (text(f"{message_id}-p1", state="done"),),
        **{"created_at": NOW, "updated_at": NOW} | fields,
    )


def turn(turn_id: str, status: Any = "queued", *, session_id: str = "s", **fields: Any) -> TurnRecord:
    times = {
        "queued": {},
        "running": {"started_at": NOW + 1},
    }.get(status, {"started_at": NOW + 1, "finished_at": NOW + 2})
    return TurnRecord(
        **{"turn_id": turn_id, "session_id": session_id, "status": status, "created_at": NOW, **times} | fields
    )


def save(*things: Message | TurnRecord) -> list[Operation]:
    return [SaveTurn(thing) if isinstance(thing, TurnRecord) else SaveMessage(thing) for thing in things]


async def newest(store: Store, session_id: str = "s", *, limit: int = 50) -> StoredPage:
    return await store.page(session_id, before_sequence=None, limit=limit, include_internal=True)


async def messages(store: Store, session_id: str = "s") -> list[dict[str, Any]]:
    """The newest Messages as plain maps."""
    return [msgspec.json.decode(item.json.text) for item in (await newest(store, session_id)).items]


def sequences(page: StoredPage) -> list[int]:
    return [item.sequence for item in page.items]
