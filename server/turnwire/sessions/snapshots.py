"""From rows and projection to the frames that show a Session: pages, snapshots and their parts (M3, W4, W10)."""

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType, structs

from turnwire.sessions.channel import SnapshotFrames
from turnwire.store.base import SessionRecord, StoredMessage, StoredPage
from turnwire_protocol.codec import encode_json
from turnwire_protocol.frames import ActiveTurn, PendingInteraction, QueuedPrompt, Snapshot
from turnwire_protocol.messages import AgentMessage, Page, Session


def session_frame(record: SessionRecord, *, executing: bool) -> Session:
    """A Session's row as clients see it."""
    return Session(
        session_id=record.session_id,
        title=_present(record.title),
        config=record.config,
        metadata=_present(record.metadata),
        created_at=record.created_at,
        updated_at=record.updated_at,
        archived_at=_present(record.archived_at),
        message_count=record.message_count,
        preview=_present(record.preview),
        executing=executing,
        origin=_present(record.origin),
    )


def page_frame(page: StoredPage, *, live: AgentMessage | None = None) -> Page:
    """A page of history (M3); with `live`, the row of that Message is overlaid by its projection (W4)."""
    items = page.items
    if live is not None:
        overlay = StoredMessage(
            message_id=live.message_id, sequence=live.sequence, revision=live.revision, json=encode_json(live)
        )
        items = tuple(overlay if item.message_id == live.message_id else item for item in items)
    return Page(
        items=tuple(item.json for item in items),
        total=page.total,
        start_sequence=items[0].sequence if items else UNSET,
        end_sequence=items[-1].sequence if items else UNSET,
        next_before_sequence=items[0].sequence if items and page.has_more else UNSET,
        has_more=page.has_more,
    )


def snapshot_frames(
    *,
    session: Session,
    epoch: str,
    seq: int,
    page: Page,
    turn: ActiveTurn | None,
    queue: Sequence[QueuedPrompt],
    interactions: tuple[PendingInteraction, ...],
    part_bytes: int,
) -> SnapshotFrames:
    """The state at one point, in as many frames as its size asks for.

    Clients join the lists of all parts, so queue and Interactions go into the first only.
    """
    slices = _slices(page.items, part_bytes, first=len(encode_json(interactions).text))
    whole = Snapshot(
        session_id=session.session_id,
        epoch=epoch,
        seq=seq,
        session=session,
        page=page,
        turn=_present(turn),
        queue=tuple(queue),
        interactions=interactions,
        part=1,
        parts=len(slices),
    )
    rest = structs.replace(whole, queue=(), interactions=())
    return SnapshotFrames(
        tuple(
            structs.replace(whole if number == 1 else rest, part=number, page=structs.replace(page, items=items))
            for number, items in enumerate(slices, start=1)
        )
    )


def _slices(items: tuple[Any, ...], part_bytes: int, *, first: int) -> list[tuple[Any, ...]]:
    """The items of each part; `first` bytes of the first one are taken by something else."""
    slices: list[tuple[Any, ...]] = []
    current: list[Any] = []
    size = first
    for item in items:
        if (current or size > part_bytes) and size + len(item.text) > part_bytes:
            slices.append(tuple(current))
            current, size = [], 0
        current.append(item)
        size += len(item.text)
    slices.append(tuple(current))
    return slices


def _present(value: Any) -> Any | UnsetType:
    return UNSET if value is None else value
