"""Steps of timelines for a server that is under test: they play its clients, and start and kill it."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, field

from turnwire_protocol.codec import Format
from turnwire_protocol.timeline_steps import Close, Cut, Name, Pattern, Send, Step, Template


class Connect(Step, tag="connect", kw_only=True, frozen=True):
    """Client `by` connects, and says `hello` unless told not to. Its views outlive its connections (W7).

    `token` goes into its `hello`. `refused` is the HTTP status that must come instead of a WebSocket. Unless it
    follows, the client does not send `reload` by itself when a view asks for it. `slow` keeps the system's buffers
    small, for a client that will stall.
    """

    by: Name = "a"
    format: Format = "json"
    hello: bool = True
    token: Template = None
    follow: bool = True
    slow: bool = False
    subprotocols: tuple[str, ...] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    refused: int | None = None


class Token(Step, tag="token", kw_only=True, frozen=True):
    """Makes a token and gives it to the variable `name`; a `lifetime` below 0 makes one that has ended.

    An `audience` is the name of another server than the one that is under test.
    """

    name: Name
    sub: Template
    lifetime: int = 3600
    audience: str | None = None
    roles: tuple[str, ...] | None = None
    grants: dict[str, Literal["viewer", "editor", "owner"]] = field(default_factory=dict)
    """By Session, which may be a variable."""


class Ask(Step, tag="ask", kw_only=True, frozen=True):
    """Sends a request and waits for its answer: a `result` or an `error` frame like this, `{}` when nothing is said."""

    by: Name = "a"
    frame: Template
    result: Pattern = None
    error: Pattern = None


class Answer(Step, tag="answer", kw_only=True, frozen=True):
    """Waits for the answer to the request that was sent as `to`."""

    by: Name = "a"
    to: Name
    result: Pattern = None
    error: Pattern = None


class Expect(Step, tag="expect", kw_only=True, frozen=True):
    """Reads on until a frame like `frame` has come, or one for each of `all`, in any order. None like `without` may
    come before it. The next `expect` goes on behind it."""

    by: Name = "a"
    frame: Pattern = None
    all: tuple[Pattern, ...] = ()
    without: tuple[Pattern, ...] = ()


class View(Step, tag="view", kw_only=True, frozen=True):
    """Reads on until the client's view of the Session, by the merge algorithm, is like `state`."""

    by: Name = "a"
    session: Template = "$s"
    state: Pattern


class Equal(Step, tag="equal", kw_only=True, frozen=True):
    """Reads on until these clients' views are live at one (`epoch`, `seq`): then they must be equal in everything."""

    clients: tuple[Name, ...]
    session: Template = "$s"


class History(Step, tag="history", kw_only=True, frozen=True):
    """Follows the pages of the Session to its beginning: each Message once, and those of the client's view the same."""

    by: Name = "a"
    session: Template = "$s"
    limit: int = 2
    messages: Pattern = None


class Stall(Step, tag="stall", kw_only=True, frozen=True):
    """The client reads nothing more from its socket."""

    by: Name = "a"


class ReadOn(Step, tag="read_on", kw_only=True, frozen=True):
    """The client that was stalled reads again."""

    by: Name = "a"


class Closed(Step, tag="closed", kw_only=True, frozen=True):
    """The server ends the connection, with a code like this (1006: without a close frame)."""

    by: Name = "a"
    code: Pattern


class Ticks(Step, tag="ticks", kw_only=True, frozen=True):
    """So many ticks come, each within twice the interval that `welcome` told (W8)."""

    by: Name = "a"
    count: int = 1


class Http(Step, tag="http", kw_only=True, frozen=True):
    """A plain GET is answered by this status."""

    path: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)


class Kill(Step, tag="kill", kw_only=True, frozen=True):
    """The server process is gone at once."""


class Terminate(Step, tag="terminate", kw_only=True, frozen=True):
    """The server process gets SIGTERM."""


class Exited(Step, tag="exited", kw_only=True, frozen=True):
    """The server process ends, with this exit code."""

    code: int = 0


class Start(Step, tag="start", kw_only=True, frozen=True):
    """The server is started again on the same data and port, and listens."""


class Repeat(Step, tag="repeat", kw_only=True, frozen=True):
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
    | Token
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
