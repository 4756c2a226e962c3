"""Turns and model calls: what the loop keeps of them while they are unfinished. No decisions here (T1, T2)."""

import msgspec
import trio
from msgspec import Struct

from turnwire.context.composer import HistoryBounds
from turnwire.models.base import ModelError
from turnwire.sessions.environment import Environment
from turnwire.sessions.steps import Step
from turnwire.store.base import TurnRecord
from turnwire.tools.base import FileDiffSummary
from turnwire.tools.file_changes import FileChanges
from turnwire_protocol.mutations import TurnError, TurnStatus
from turnwire_protocol.parts import FILE_DIFF, DataPart, ErrorPart


class TurnResult(Struct, frozen=True):
    """How a Turn ended: the same as its `turn`/`finish` Mutation says (T2)."""

    turn_id: str
    status: TurnStatus
    error: TurnError | None = None


class Turn:
    """A Turn that has not finished: queued while `started_at` is None, else running."""

    def __init__(self, record: TurnRecord, message_id: str, sequence: int) -> None:
        self.record = record
        self.turn_id = record.turn_id
        self.message_id = message_id
        self.sequence = sequence
        """Where the prompt stands in history."""
        self.call: ModelCall | None = None
        self.closing: tuple[TurnStatus, TurnError | None] | None = None
        """How the Turn is to end, while the store cannot write its end."""
        self.steps = 0
        """Model calls so far, retries not counted."""
        self.unread = 0
        """How many User Messages have joined the Turn that no Step has read yet (M8)."""
        self.discarded: str | None = None
        """The Step whose Parts did not agree, while the end of the Turn is not stored: none of it is to be (S2)."""
        self.changes = FileChanges()
        """Files that its tools have changed (L5)."""
        self.finished = trio.Event()
        self.result: TurnResult | None = None
        """None also for a finished one, when the Session has failed: then the store says how it ended."""


class ModelCall:
    """One attempt at one Step: the task that iterates the provider, and what came of it so far."""

    def __init__(self, step: Step, history: HistoryBounds, delay_ms: int, *, compacted: bool = False) -> None:
        self.step = step
        self.history = history
        self.delay_ms = delay_ms
        self.compacted = compacted
        """Whether the history was compacted for this Step, because it was too long for the model."""
        self.input_tokens = 0
        """An estimate of what the model reads."""
        self.scope = trio.CancelScope()


def error_part(env: Environment, error: TurnError) -> ErrorPart:
    """The `error` Part that stores a reason (M7); its place is given by the Message that takes it."""
    return ErrorPart(
        part_id=env.new_id("part"),
        sequence=1,
        scope="turn",
        code=error.code,
        message=error.message,
        recoverable=True,
    )


def changes_part(env: Environment, turn: Turn, changes: FileDiffSummary) -> DataPart:
    """The `data` Part that keeps what the Turn has changed in files (L5); its place is given by its Message."""
    return DataPart(
        part_id=env.new_id("part"),
        sequence=1,
        data_type=FILE_DIFF,
        data_id=turn.turn_id,
        data=msgspec.to_builtins(changes),
    )


class CallEnded(Struct, frozen=True):
    """The last event of every model call that was not cancelled: how it ended."""

    error: ModelError | None
