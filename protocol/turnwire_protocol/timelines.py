"""Timelines: scripted conversations as data, for servers and clients in any language ("Conformance" in SPEC.md).

Only the format lives here. Patterns are matched in `turnwire.conformance.patterns`; running timelines against a server
or a client is the rest of that package.
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from turnwire_protocol.codec import Format

Name: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]*(?!\n)$")]
"""A client, a request or a variable, as timelines call it."""

Pattern: TypeAlias = Any
"""What a value must be like: see "Patterns" in SPEC.md."""

Template: TypeAlias = Any
"""A value with variables in it."""

Need: TypeAlias = Literal[
    "control", "workspace", "reconnect", "token", "prompt", "stop", "respond", "older", "msgpack", "silence"
]
"""What a timeline asks for beyond the wire. Of a server: `control` (it can be started and killed), `workspace` (the
tool `write_file`, which asks for approval). Of a client: what its driver says that it can do."""


class _Step(Struct, kw_only=True, frozen=True, tag_field="do", forbid_unknown_fields=True):
    seconds: float | None = None
    """How long this step may take, if not as long as all others."""


# ------------------------------------------------------------------------ steps on which both kinds of timelines agree


class Send(_Step, tag="send", kw_only=True, frozen=True):
    """Sends a frame, or raw `text`, or raw bytes in `hex`; goes on without waiting.

    A request without `id` gets a fresh one, and is called `name` by a later `answer`; an `id` of null is left out.
    """

    by: Name = "a"
    frame: Template = None
    text: str | None = None
    hex: str | None = None
    name: Name | None = None


class Cut(_Step, tag="cut", kw_only=True, frozen=True):
    """Ends the connection without a word of WebSocket: `reset` (RST) or `end` (FIN)."""

    by: Name = "a"
    how: Literal["reset", "end"]


class Close(_Step, tag="close", kw_only=True, frozen=True):
    """Closes the connection with this code."""

    by: Name = "a"
    code: int = 1000


# ------------------------------------------------------------------------------- steps for a server that is under test


class Connect(_Step, tag="connect", kw_only=True, frozen=True):
    """Client `by` connects, and says `hello` unless told not to. Its views outlive its connections (W7).

    `refused` is the HTTP status that must come instead of a WebSocket. Unless it follows, the client does not send
    `reload` by itself when a view asks for it. `slow` keeps the system's buffers small, for a client that will stall.
    """

    by: Name = "a"
    format: Format = "json"
    hello: bool = True
    follow: bool = True
    slow: bool = False
    subprotocols: tuple[str, ...] | None = None
    headers: dict[str, str] = {}
    refused: int | None = None


class Ask(_Step, tag="ask", kw_only=True, frozen=True):
    """Sends a request and waits for its answer: a `result` or an `error` frame like this, `{}` when nothing is said."""

    by: Name = "a"
    frame: Template
    result: Pattern = None
    error: Pattern = None


class Answer(_Step, tag="answer", kw_only=True, frozen=True):
    """Waits for the answer to the request that was sent as `to`."""

    by: Name = "a"
    to: Name
    result: Pattern = None
    error: Pattern = None


class Expect(_Step, tag="expect", kw_only=True, frozen=True):
    """Reads on until a frame like `frame` has come, or one for each of `all`, in any order. None like `without` may
    come before it. The next `expect` goes on behind it."""

    by: Name = "a"
    frame: Pattern = None
    all: tuple[Pattern, ...] = ()
    without: tuple[Pattern, ...] = ()


class View(_Step, tag="view", kw_only=True, frozen=True):
    """Reads on until the client's view of the Session, by the merge algorithm, is like `state`."""

    by: Name = "a"
    session: Template = "$s"
    state: Pattern


class Equal(_Step, tag="equal", kw_only=True, frozen=True):
    """Reads on until these clients' views are live at one (`epoch`, `seq`): then they must be equal in everything."""

    clients: tuple[Name, ...]
    session: Template = "$s"


class History(_Step, tag="history", kw_only=True, frozen=True):
    """Follows the pages of the Session to its beginning: each Message once, and those of the client's view the same."""

    by: Name = "a"
    session: Template = "$s"
    limit: int = 2
    messages: Pattern = None


class Stall(_Step, tag="stall", kw_only=True, frozen=True):
    """The client reads nothing more from its socket."""

    by: Name = "a"


class ReadOn(_Step, tag="read_on", kw_only=True, frozen=True):
    """The client that was stalled reads again."""

    by: Name = "a"


class Closed(_Step, tag="closed", kw_only=True, frozen=True):
    """The server ends the connection, with a code like this (1006: without a close frame)."""

    by: Name = "a"
    code: Pattern


class Ticks(_Step, tag="ticks", kw_only=True, frozen=True):
    """So many ticks come, each within twice the interval that `welcome` told (W8)."""

    by: Name = "a"
    count: int = 1


class Http(_Step, tag="http", kw_only=True, frozen=True):
    """A plain GET is answered by this status."""

    path: str
    status: int
    headers: dict[str, str] = {}


class Kill(_Step, tag="kill", kw_only=True, frozen=True):
    """The server process is gone at once."""


class Terminate(_Step, tag="terminate", kw_only=True, frozen=True):
    """The server process gets SIGTERM."""


class Exited(_Step, tag="exited", kw_only=True, frozen=True):
    """The server process ends, with this exit code."""

    code: int = 0


class Start(_Step, tag="start", kw_only=True, frozen=True):
    """The server is started again on the same data and port, and listens."""


class Repeat(_Step, tag="repeat", kw_only=True, frozen=True):
    """Does these steps so many times; the variables named in `fresh` have no value at the beginning of each round."""

    times: Annotated[int, Meta(ge=1)]
    fresh: tuple[Name, ...] = ()
    steps: "tuple[ServerStep, ...]"


ServerStep: TypeAlias = (
    Repeat
    | Send
    | Cut
    | Close
    | Connect
    | Ask
    | Answer
    | Expect
    | View
    | Equal
    | History
    | Stall
    | ReadOn
    | Closed
    | Ticks
    | Http
    | Kill
    | Terminate
    | Exited
    | Start
)


# ------------------------------------------------------------------------------- steps for a client that is under test


class Command(_Step, tag="command", kw_only=True, frozen=True):
    """Tells the client's driver to do something; `name` is for a later `returns`."""

    command: Literal["connect", "disconnect", "subscribe", "unsubscribe", "prompt", "stop", "respond", "older"]
    fields: dict[str, Template] = {}
    name: Name | None = None


class Returns(_Step, tag="returns", kw_only=True, frozen=True):
    """What the command that was given as `to` has come to."""

    to: Name
    result: Pattern = None
    error: Pattern = None


class Accept(_Step, tag="accept", kw_only=True, frozen=True):
    """Waits until the client has connected anew and said a `hello` like this, and lets it in, or refuses it.

    `welcome` changes fields of the usual one. Instead of it `error` may be sent, or nothing (`silent`).
    """

    hello: Pattern = {}
    welcome: dict[str, Template] = {}
    error: Template = None
    silent: bool = False


class Receive(_Step, tag="receive", kw_only=True, frozen=True):
    """Reads on until a request like this came; none like `without` may come before it, save `ping`.

    It is answered by `result` or `error`, if one is given; `$id` is its id for an answer that is sent later.
    """

    frame: Pattern
    without: tuple[Pattern, ...] = ()
    result: Template = None
    error: Template = None


class Shows(_Step, tag="shows", kw_only=True, frozen=True):
    """Waits until what the client shows of the Session is like `state`."""

    session: Template = "$s"
    state: Pattern


class Connection(_Step, tag="connection", kw_only=True, frozen=True):
    """Waits until the client says this of its connection."""

    state: Pattern


class Gone(_Step, tag="gone", kw_only=True, frozen=True):
    """The client ends its connection."""


ClientStep: TypeAlias = Send | Cut | Close | Command | Returns | Accept | Receive | Shows | Connection | Gone


# ----------------------------------------------------------------------------------------------------------- timelines


class ServerTimeline(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A conversation with a server that is under test. The first of `rules` is the one that a failure breaks."""

    name: str
    rules: Annotated[tuple[str, ...], Meta(min_length=1)]
    needs: tuple[Need, ...] = ()
    steps: tuple[ServerStep, ...]


class ClientTimeline(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A conversation with a client that is under test; the steps play the server."""

    name: str
    rules: Annotated[tuple[str, ...], Meta(min_length=1)]
    needs: tuple[Need, ...] = ()
    steps: tuple[ClientStep, ...]


class _File(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="under_test"):
    let: dict[Name, Template] = {}
    """Values for the variables of all timelines in the file."""


class ServerTimelines(_File, tag="server", kw_only=True, frozen=True):
    """One file of timelines for servers."""

    timelines: tuple[ServerTimeline, ...]


class ClientTimelines(_File, tag="client", kw_only=True, frozen=True):
    """One file of timelines for clients."""

    timelines: tuple[ClientTimeline, ...]


TimelineFile: TypeAlias = ServerTimelines | ClientTimelines


def timelines_schema() -> dict[str, Any]:
    """The JSON Schema of a file of timelines."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:turnwire:v1:timelines",
        "title": "Timelines of Turnwire's conformance pack",
        **msgspec.json.schema(TimelineFile),
    }
