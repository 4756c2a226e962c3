"""Steps of timelines for a client that is under test: they play its server, and drive it."""

from typing import Literal, TypeAlias

from msgspec import field

from turnwire_protocol.timeline_steps import Close, Cut, Name, Pattern, Send, Step, Template


class Command(Step, tag="command", kw_only=True, frozen=True):
    """Tells the client's driver to do something; `name` is for a later `returns`."""

    command: Literal["connect", "disconnect", "subscribe", "unsubscribe", "prompt", "stop", "respond", "older"]
    fields: dict[str, Template] = field(default_factory=dict)
    name: Name | None = None


class Returns(Step, tag="returns", kw_only=True, frozen=True):
    """What the command that was given as `to` has come to."""

    to: Name
    result: Pattern = None
    error: Pattern = None


class Accept(Step, tag="accept", kw_only=True, frozen=True):
    """Waits until the client has connected anew and said a `hello` like this, and lets it in, or refuses it.

    `welcome` changes fields of the usual one. Instead of it `error` may be sent, or nothing (`silent`).
    """

    hello: Pattern = field(default_factory=dict)
    welcome: dict[str, Template] = field(default_factory=dict)
    error: Template = None
    silent: bool = False


class Receive(Step, tag="receive", kw_only=True, frozen=True):
    """Reads on until a request like this came; none like `without` may come before it, save `ping`.

    It is answered by `result` or `error`, if one is given; `$id` is its id for an answer that is sent later.
    """

    frame: Pattern
    without: tuple[Pattern, ...] = ()
    result: Template = None
    error: Template = None


class Shows(Step, tag="shows", kw_only=True, frozen=True):
    """Waits until what the client shows of the Session is like `state`."""

    session: Template = "$s"
    state: Pattern


class Connection(Step, tag="connection", kw_only=True, frozen=True):
    """Waits until the client says this of its connection."""

    state: Pattern


class Gone(Step, tag="gone", kw_only=True, frozen=True):
    """The client ends its connection."""


ClientStep: TypeAlias = Send | Cut | Close | Command | Returns | Accept | Receive | Shows | Connection | Gone
