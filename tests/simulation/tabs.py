"""Tabs: clients that follow a Session by the rules, and check all that reaches them against the rules of the stream.

What must hold once everything has come to rest is `rest`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from simulation.faulty_store import Committed
from simulation.journal import Journal
from turnwire.sessions.channel import EndReason, Listener, Published, SnapshotFrames
from turnwire_protocol import lifecycle
from turnwire_protocol.view import SessionView

Map = dict[str, Any]
SESSION = "s1"

_LIFECYCLES: Mapping[str, lifecycle.Lifecycle[Any]] = {
    "text": lifecycle.TEXT,
    "reasoning": lifecycle.TEXT,
    "tool": lifecycle.TOOL,
    "interaction": lifecycle.INTERACTION,
    "action": lifecycle.ACTION,
}


class Tab:
    """One client. It hears only while it is `live`: what a dead process still says reaches no one."""

    def __init__(self, name: str, journal: Journal, committed: Committed, *, internal: bool, limit: int) -> None:
        self.name = name
        self.internal = internal
        self.limit = limit
        self.view = SessionView(SESSION)
        self.live = False
        self.connection: Connection | None = None
        self.others: list[Tab] = []
        """All tabs of the run: those that are at the same point must see the same."""
        self.started: list[str] = []
        """The Turns that started in this epoch, in that order."""
        self.finishes: dict[str, set[str]] = {}
        """The `mutation_id` of every `turn`/`finish` that came, by Turn."""
        self.doomed = False
        """Whether the Session is being deleted."""
        self.ended_with: EndReason | None = None
        self.unfinished: set[str] = set()
        """Turns that were seen to begin or to wait in this epoch, and not to finish."""
        self._journal = journal
        self.committed = committed
        self._states: dict[str, str] = {}
        self._tops: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------------- watching

    def joined(self, snapshot: SnapshotFrames) -> None:
        epoch = self.view.epoch
        for data in snapshot.encoded("json"):
            effect = self.view.receive(msgspec.json.decode(data))
        self.require(effect == "applied", "W4", f"the snapshot was {effect}")
        if epoch != self.view.epoch:
            self.started.clear()
            self.unfinished.clear()
        self.live = True
        self._states.clear()
        self._tops.clear()
        for message in self.view.messages:
            self._check_audience(message)
            self.committed.contents.check(message, "in a snapshot")
            for part in message["parts"]:
                self._states[part["part_id"]] = _state(part)
            self._tops[message["message_id"]] = max(part["sequence"] for part in message["parts"])
        for other in self.others:
            if other is not self and other.live and other.internal == self.internal:
                self._compare(other)

    def published(self, item: Published) -> None:
        if not self.live:
            return
        frame: Map = msgspec.json.decode(item.encoded("json"))
        following = (self.view.epoch, self.view.seq + 1)
        if (frame["epoch"], frame["seq"]) != following:
            self.blame("W5", f"{frame['seq']} came instead of {following}")
        if frame["variant"] in ("message", "part", "delta"):
            self._check_row(frame)
        effect = self.view.receive(frame)
        if effect != "applied":
            self.blame("S5", f"{frame} was {effect}")
        if frame["variant"] in ("message", "part", "delta"):
            self._check_change(frame)
        elif frame["variant"] == "turn":
            self._take_turn(frame)

    def connect(self) -> "Connection":
        """The connection that stands, or a new one."""
        if self.connection is None:
            self.connection = Connection(self)
        return self.connection

    def disconnect(self) -> None:
        """The server is gone, or the way to it."""
        self.connection = None
        self.live = False
        self.view.disconnected()
        self.unfinished.clear()

    # ------------------------------------------------------------------------------------------------------- checking

    def require(self, condition: bool, rule: str, sentence: str) -> None:
        if not condition:
            self.blame(rule, sentence)

    def blame(self, rule: str, sentence: str) -> None:
        self._journal.blame(rule, f"{self.name}: {sentence}")

    def _check_audience(self, message: Map) -> None:
        if not self.internal and message["visibility"] != "visible":
            self.blame("M4", f"an internal Message was shown: {message}")

    def _check_row(self, frame: Map) -> None:
        """Before a change is seen its Message has a row, and a whole Message is the committed one (S3, S4)."""
        committed = self.committed.revisions.get(frame["message_id"])
        if frame["variant"] == "message":
            fits = committed == frame["revision"] == frame["message"]["revision"]
        else:
            fits = committed is not None and committed < frame["revision"]
        if not fits:
            self.blame("S4", f"{frame['variant']} has revision {frame['revision']}, committed is {committed}")

    def _check_change(self, frame: Map) -> None:
        message = next((m for m in self.view.messages if m["message_id"] == frame["message_id"]), None)
        if message is None:
            return  # a Message that was never shown: the effect has said so
        self._check_audience(message)
        self.committed.contents.check(message, f"in a {frame['variant']}")
        if message["role"] == "agent":
            open_parts = [part for part in message["parts"] if not _terminal(part)]
            if open_parts and message["state"] != "streaming":
                self.blame("S7", f"closed with {open_parts}")
        elif frame["variant"] == "message":
            self._take_prompt(message)
        top = self._tops.get(message["message_id"], 0)
        for part in message["parts"]:
            known = self._states.get(part["part_id"])
            state = self._states[part["part_id"]] = _state(part)
            if known is None and part["sequence"] <= top:
                self.blame("P1", f"{part} took a place at or below {top}")
            self._check_move(part, known, state)
        self._tops[message["message_id"]] = max(top, *(part["sequence"] for part in message["parts"]))

    def _check_move(self, part: Map, known: str | None, state: str) -> None:
        table = _LIFECYCLES.get(part["type"])
        if table is None or not state or known == state:
            return
        allowed = table.initial if known is None else table.moves[known]
        self.require(state in allowed, "P4", f"{part['type']} {part['part_id']} went from {known} to {state}")

    def _take_prompt(self, message: Map) -> None:
        turn_id = message.get("turn_id")
        if turn_id is None:
            return  # an instruction that waits for the next Turn
        if turn_id not in self.finishes:
            self.unfinished.add(turn_id)
        self.require(turn_id not in self.finishes, "T1", f"{turn_id} got a prompt after its finish")

    def _take_turn(self, frame: Map) -> None:
        turn_id = frame["turn_id"]
        if frame["type"] == "start":
            self.require(turn_id not in self.finishes, "T2", f"{turn_id} started after its finish")
            self.require(turn_id not in self.started, "T2", f"{turn_id} started twice")
            self.started.append(turn_id)
            self.unfinished.add(turn_id)
        else:
            self.unfinished.discard(turn_id)
            self.finishes.setdefault(turn_id, set()).add(frame["mutation_id"])
            self.require(turn_id in self.committed.ended, "T2", f"the finish of {turn_id} came before its commit")

    def _compare(self, other: "Tab") -> None:
        """Who joins now sees what those see who were there all along (W4, J2)."""
        mine, theirs = self.view, other.view
        if (mine.epoch, mine.seq) != (theirs.epoch, theirs.seq):
            self.require(False, "W5", f"joined at {mine.seq}, but {other.name} is at {theirs.seq}")
            return
        # Of an internal Message nobody else is told, so that another may learn only by the next one how many there are.
        more = mine.total - theirs.total
        fits = more == 0 or (more > 0 and not self.internal)
        self.require(fits, "W4", f"joined with total {mine.total}, but {other.name} has {theirs.total}")
        for name in ("turn", "queue", "interactions"):
            a, b = getattr(mine, name), getattr(theirs, name)
            if a != b:
                self.blame("W4", f"joined with {name} {a}, but {other.name} has {b}")
        held = {message["message_id"]: message for message in theirs.messages}
        for message in mine.messages:
            b = held.get(message["message_id"], message)
            if message != b:
                self.blame("W4", f"joined with {message}, but {other.name} has {b}")
        for name in ("title", "config"):
            a, b = ((view.session or {}).get(name) for view in (mine, theirs))
            self.require(a == b, "W4", f"joined with {name} {a}, but {other.name} has {b}")


class Connection:
    """A tab's way to one server process. Once the tab has given it up, what still comes over it reaches no one."""

    def __init__(self, tab: Tab) -> None:
        self._tab = tab
        self.joining = 0
        """How many attempts to join are under way."""
        self.away = False
        """Whether the last attempt was given up before it had an answer."""

    @property
    def _stands(self) -> bool:
        return self._tab.connection is self

    @property
    def listener(self) -> Listener:
        return self

    def joined(self, snapshot: SnapshotFrames) -> None:
        if self._stands:
            self._tab.require(not self.away, "T4", "joined after it had left")
            self._tab.joined(snapshot)

    def published(self, item: Published) -> None:
        if self._stands:
            self._tab.published(item)

    def restarted(self, session_id: str) -> None:
        if self._stands:
            self._tab.require(self._tab.committed.met_a_bug, "T3", "the Session's task has failed")
            self._tab.disconnect()

    def ended(self, session_id: str, reason: EndReason) -> None:
        if self._stands:
            self._tab.require(self._tab.doomed, "L1", f"the subscription was ended: {reason}")
            self._tab.ended_with = reason
            self._tab.disconnect()


def _state(part: Map) -> str:
    return str(part.get("status" if part["type"] == "interaction" else "state", ""))


def _terminal(part: Map) -> bool:
    """Whether the Part can stay like this for ever."""
    table = _LIFECYCLES.get(part["type"])
    return table is None or not _state(part) or _state(part) in table.terminal


is_terminal = _terminal
