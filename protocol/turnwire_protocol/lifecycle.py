"""Lifecycles: which state may follow which, one table each, and `advance`, the only way from one to the next (P4, P7).

The tables in SPEC.md are written from these. A state without successors is terminal; a move that no table allows is a
fault of the caller, and says so in a sentence.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from turnwire_protocol.messages import MessageState
from turnwire_protocol.mutations import TurnState
from turnwire_protocol.parts import ActionState, InteractionStatus, TextState, ToolState

S = TypeVar("S", bound=str)

ViewStatus: TypeAlias = Literal["loading", "live", "resyncing", "stale", "error"]
"""How a client's view stands to its Session; see `view`."""


class IllegalTransition(Exception):
    """A move that the lifecycle does not allow."""


class Lifecycle(Generic[S]):
    """One machine: its name, where it begins, and what may follow each state."""

    def __init__(self, name: str, initial: tuple[S, ...], moves: Mapping[S, tuple[S, ...]]) -> None:
        self.name = name
        self.initial: Final = initial
        self.moves: Final = dict(moves)
        self.terminal: Final = frozenset(state for state, following in moves.items() if not following)


TOOL: Final = Lifecycle[ToolState](
    "tool",
    ("input-streaming",),
    {
        "input-streaming": ("ready", "failed"),
        "ready": ("waiting-user", "running", "failed"),
        "waiting-user": ("running", "failed"),
        "running": ("completed", "failed"),
        "completed": (),
        "failed": (),
    },
)
INTERACTION: Final = Lifecycle[InteractionStatus](
    "interaction",
    ("pending",),
    {
        "pending": ("resolved", "denied", "expired", "cancelled"),
        "resolved": (),
        "denied": (),
        "expired": (),
        "cancelled": (),
    },
)
ACTION: Final = Lifecycle[ActionState](
    "action",
    ("running", "completed", "failed"),
    {"running": ("completed", "failed"), "completed": (), "failed": ()},
)
TURN: Final = Lifecycle[TurnState](
    "turn",
    ("queued", "running"),
    {
        "queued": ("running", "failed", "stopped"),
        "running": ("completed", "failed", "stopped"),
        "completed": (),
        "failed": (),
        "stopped": (),
    },
)
TEXT: Final = Lifecycle[TextState]("text", ("streaming",), {"streaming": ("done",), "done": ()})
MESSAGE: Final = Lifecycle[MessageState]("message", ("streaming", "done"), {"streaming": ("done",), "done": ()})
VIEW: Final = Lifecycle[ViewStatus](
    "view",
    ("loading",),
    {
        "loading": ("live", "error"),
        "live": ("resyncing", "stale", "error"),
        "resyncing": ("live", "stale", "error"),
        "stale": ("live", "error"),
        "error": (),
    },
)

LIFECYCLES: Final[tuple[Lifecycle[Any], ...]] = (TURN, MESSAGE, TEXT, TOOL, INTERACTION, ACTION, VIEW)


def advance(lifecycle: Lifecycle[S], state: S, to: S) -> S:
    """`to`, when it may follow `state`. Raises IllegalTransition, which says what would have been allowed."""
    following = lifecycle.moves.get(state)
    if following is None:
        raise IllegalTransition(f"{lifecycle.name}: there is no state {state!r}")
    if to not in following:
        allowed = ", ".join(following) or "nothing: it is terminal"
        raise IllegalTransition(f"{lifecycle.name}: {to!r} cannot follow {state!r}; allowed: {allowed}")
    return to
