"""What all steps of timelines share, and those that both servers and clients are tested with."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

Name: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*(?!\n)$")]
"""A client, a request or a variable, as timelines call it."""

Pattern: TypeAlias = Any
"""What a value must be like: see "Patterns" in SPEC.md."""

Template: TypeAlias = Any
"""A value with variables in it."""


class Step(Struct, kw_only=True, frozen=True, tag_field="do", forbid_unknown_fields=True):
    seconds: float | None = None
    """How long this step may take, if not as long as all others."""


class Send(Step, tag="send", kw_only=True, frozen=True):
    """Sends a frame, or raw `text`, or raw bytes in `hex`; goes on without waiting.

    A request without `id` gets a fresh one, and is called `name` by a later `answer`; an `id` of null is left out.
    """

    by: Name = "a"
    frame: Template = None
    text: str | None = None
    hex: str | None = None
    name: Name | None = None


class Cut(Step, tag="cut", kw_only=True, frozen=True):
    """Ends the connection without a word of WebSocket: `reset` (RST) or `end` (FIN)."""

    by: Name = "a"
    how: Literal["reset", "end"]


class Close(Step, tag="close", kw_only=True, frozen=True):
    """Closes the connection with this code."""

    by: Name = "a"
    code: int = 1000
