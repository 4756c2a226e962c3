"""What Sessions are given from outside: store, model, clock, ids, chance and limits. Nothing here decides anything."""

import secrets
import time
from collections.abc import Callable
from random import Random, SystemRandom

from msgspec import Struct, field

from turnwire.context.composer import Composer
from turnwire.models.base import ModelProvider
from turnwire.models.retry import RetryPolicy
from turnwire.models.timeouts import FIRST_EVENT_SECONDS, IDLE_SECONDS, TOTAL_SECONDS
from turnwire.sessions.counts import SessionCounts
from turnwire.sessions.shelf import Shelf
from turnwire.store.base import Store
from turnwire.tools.registry import ToolRegistry


def now_ms() -> int:
    """The wall clock, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SessionLimits(Struct, kw_only=True, frozen=True):
    """The bounds of a Session's state. Bytes are bytes of JSON."""

    message_bytes: int = 1024 * 1024
    """A User Message above it is refused; an Agent Message near it is closed and the next one opened (W10)."""
    held_message_bytes: int = 3584 * 1024
    """An Agent Message is not closed while a Tool of it is open. What results and answers would take it above this is
    refused, so that it still fits into a frame (W10)."""
    metadata_bytes: int = 16 * 1024
    """The metadata of a Session, which is in every list and snapshot: the longest page of a list fits into a frame."""
    snapshot_part_bytes: int = 256 * 1024
    """How much Message JSON one `snapshot` frame holds; a larger Message has a frame of its own."""
    steps: int = 100
    """Model calls of one Turn, retries not counted; one more fails the Turn (`too_many_steps`)."""
    interaction_seconds: float | None = None
    """How long an approval or a question waits for the user at most before it is `expired`. None: approvals for ever;
    questions never longer than the `timeout_seconds` of their tool (a day for `ask_user`)."""
    queued_prompts: int = 100
    """Prompts that may wait for the running Turn, and as many for its next Step; one more is `rate_limited`."""
    pending_events: int = 256
    """Model events that may wait for the loop before the provider is held back."""
    first_event_seconds: float | None = FIRST_EVENT_SECONDS
    """How long a model call may take to begin (K7); None for no limit."""
    idle_event_seconds: float | None = IDLE_SECONDS
    """How long a model call may be silent between two events; None for no limit."""
    call_seconds: float | None = TOTAL_SECONDS
    """How long a model call may last in all; None for no limit."""
    callback_backlog: int = 10_000
    """Mutations that may wait for one async subscriber before it is dropped."""
    idle_seconds: float = 30.0
    """How long a Session that nobody watches and that does nothing stays in memory."""
    answer_seconds: float = 10.0
    """How long a request may wait for the Session's task, which a store that does not answer holds up (T3)."""
    store_retry_seconds: float = 1.0
    """How long a Turn's end waits before it is stored again, while the store cannot write."""


class Phase:
    """Where the whole server is in its life, for all of its Sessions."""

    def __init__(self) -> None:
        self.draining = False
        """The server is about to stop: no Turn is started any more (W8)."""


class Environment(Struct, kw_only=True, frozen=True):
    """The outside world of all Sessions of one server; tests give a virtual clock and seeded chance."""

    store: Store
    provider: ModelProvider
    composer: Composer
    tools: ToolRegistry = ToolRegistry()
    retry: RetryPolicy = RetryPolicy()
    limits: SessionLimits = SessionLimits()
    titles: bool = True
    """Whether a Session without a title is given one by its model."""
    now: Callable[[], int] = now_ms
    """Milliseconds since the epoch."""
    new_id: Callable[[str], str] = lambda prefix: f"{prefix}_{secrets.token_hex(12)}"
    """A new id that was never given out, also by earlier processes: `prefix` says what it names."""
    random: Random = SystemRandom()
    counts: SessionCounts = field(default_factory=SessionCounts)
    phase: Phase = field(default_factory=Phase)
    shelf: Shelf = field(default_factory=Shelf)
