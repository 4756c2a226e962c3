"""`SessionView`: how a client merges snapshots, Mutations and pages into one state ("The client's view" in SPEC.md).

Sans-I/O and on plain maps: frames go in, effects come out; who sends requests and owns the connection is elsewhere.
The TypeScript client has the same algorithm, and both pass `vectors/merge/`.
"""

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from turnwire_protocol.held import HeldMessage, Plain, require
from turnwire_protocol.lifecycle import VIEW, ViewStatus, advance

Effect: TypeAlias = Literal["applied", "ignored", "buffered", "reload"]
Frame: TypeAlias = Mapping[str, Any]

MAX_BUFFERED: Final = 10_000
"""How many Mutations a view keeps while it waits for a snapshot."""

_INTERACTION_FIELDS: Final = ("interaction_id", "interaction_type", "tool_call_id", "revision", "request")


class SessionView:
    """One Session as a client sees it. Its maps belong to it: read them, change nothing.

    `receive` and `add_page` raise MalformedFrame for a frame that no version of the protocol allows.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.status: ViewStatus = "loading"
        self.reason: str | None = None
        self.epoch: str | None = None
        self.seq = 0
        self.session: Plain | None = None
        self.turn: Plain | None = None
        self.queue: list[Plain] = []
        self.total = 0
        self.has_more = False
        self.next_before_sequence: int | None = None
        self._held: dict[str, HeldMessage] = {}
        self._order: list[HeldMessage] = []
        self._interactions: dict[str, Plain] = {}
        self._buffer: deque[Frame] = deque(maxlen=MAX_BUFFERED)
        self._parts: list[Frame] = []
        self._ops: Final[dict[str, Callable[[Frame], Effect]]] = {
            "mutation": self._mutation,
            "snapshot": self._snapshot,
            "reload": self._reload,
            "unsubscribed": self._unsubscribed,
        }
        self._variants: Final[dict[str, Callable[[Frame], Effect]]] = {
            "message": self._message,
            "part": self._part,
            "delta": self._delta,
            "turn": self._turn,
            "session": self._session,
        }

    @property
    def messages(self) -> list[Plain]:
        """The Messages, ascending by `sequence`."""
        return [held.plain() for held in self._order]

    @property
    def interactions(self) -> list[Plain]:
        """The pending Interactions, in the order in which they came."""
        return list(self._interactions.values())

    # ------------------------------------------------------------------------------------------------- what comes in

    def receive(self, frame: Frame) -> Effect:
        """Takes in one frame. `reload` asks the owner to send a `reload` request, once for each loss (W5)."""
        handler = self._ops.get(frame.get("op", ""))
        if handler is None or self.status == "error" or frame.get("session_id") != self.session_id:
            return "ignored"
        return handler(frame)

    def disconnected(self) -> None:
        """The connection was lost: the state is shown on, but nothing in flight will be completed (W7)."""
        if self.status in ("live", "resyncing"):
            self._become("stale")
        self._forget_flight()

    def add_page(self, page: Frame, before_sequence: int | None = None) -> Effect:
        """Takes in the result of a `messages` request that was sent with this `before_sequence` (M3)."""
        if self.status in ("loading", "error") or not self._order or self._leaves_hole(before_sequence):
            return "ignored"
        newest = self._order[-1].sequence
        for item in require(page, "items", list):
            held = HeldMessage(item)
            if held.sequence > newest:
                continue  # it comes by Mutation or snapshot, and only then with its Turn and its place in the queue
            known = self._held.get(held.message_id)
            if known is None:
                self._hold(held)
            elif held.revision > known.revision:
                self._hold(held)
                self._take_interactions(held)
        self.total = max(self.total, require(page, "total", int))
        start = page.get("start_sequence")
        if self.next_before_sequence is not None and (start is None or start < self.next_before_sequence):
            self._set_cursor(page)
        return "applied"

    # ------------------------------------------------------------------------------------------------------ snapshots

    def _snapshot(self, frame: Frame) -> Effect:
        epoch, seq = require(frame, "epoch", str), require(frame, "seq", int)
        number, count = require(frame, "part", int), require(frame, "parts", int)
        if self.status == "live" and epoch == self.epoch and seq < self.seq:
            self._parts.clear()
            return "ignored"
        if number == 1:
            self._parts.clear()
        elif number != len(self._parts) + 1 or (epoch, seq) != (self._parts[0]["epoch"], self._parts[0]["seq"]):
            self._parts.clear()
            return "ignored"
        self._parts.append(frame)
        if number < count:
            return "buffered"
        parts, self._parts = self._parts, []
        self._take_snapshot(parts)
        return self._replay()

    def _take_snapshot(self, parts: list[Frame]) -> None:
        first = parts[0]
        pages = [require(part, "page", dict) for part in parts]
        items = [HeldMessage(item) for page in pages for item in require(page, "items", list)]
        same_epoch = self.epoch == first["epoch"]
        stayed = self._merge_newest(items, pages[0]) if same_epoch else self._replace(items, pages[0])
        self.session = dict(require(first, "session", dict))
        self.turn = first.get("turn")
        self.queue = [item for part in parts for item in require(part, "queue", list)]
        pending = [item for part in parts for item in require(part, "interactions", list)]
        self._interactions = {require(item, "interaction_id", str): item for item in pending}
        for held in stayed:
            self._take_interactions(held)
        self.total = require(pages[0], "total", int)
        self.epoch, self.seq = first["epoch"], first["seq"]
        self._become("live")

    def _replace(self, items: Iterable[HeldMessage], page: Frame) -> list[HeldMessage]:
        self._held = {held.message_id: held for held in items}
        self._order = sorted(self._held.values(), key=_sequence_of)
        self._set_cursor(page)
        return []

    def _merge_newest(self, items: list[HeldMessage], page: Frame) -> list[HeldMessage]:
        """Puts the page in place of what it covers; returns the Messages that stay because they are ahead of it."""
        if not items:
            return self._replace(items, page)
        start = min(held.sequence for held in items)
        older = [held for held in self._order if held.sequence < start]
        running = None if self.turn is None else self.turn.get("turn_id")
        if len(older) == len(self._order) or any(held.may_change(running) for held in older):
            return self._replace(items, page)
        stayed = [
            known
            for held in items
            if (known := self._held.get(held.message_id)) is not None and known.revision > held.revision
        ]
        cursor = self.next_before_sequence
        goes_deeper = bool(older) and (cursor is None or cursor < start)
        has_more = self.has_more
        self._replace([*older, *items, *stayed], page)
        if goes_deeper:
            self.has_more, self.next_before_sequence = has_more, cursor
        return stayed

    def _replay(self) -> Effect:
        while self._buffer:
            frame = self._buffer.popleft()
            if self._apply(frame) == "reload":
                return "reload"
        return "applied"

    # ------------------------------------------------------------------------------------------------------ Mutations

    def _mutation(self, frame: Frame) -> Effect:
        if self.status == "live":
            return self._apply(frame)
        self._buffer.append(frame)
        return "buffered"

    def _apply(self, frame: Frame) -> Effect:
        seq = require(frame, "seq", int)
        if frame.get("epoch") != self.epoch:
            return self._lost()
        if seq <= self.seq:
            return "ignored"
        if seq > self.seq + 1:
            return self._lost()
        handler = self._variants.get(frame.get("variant", ""))
        effect: Effect = "applied" if handler is None else handler(frame)
        if effect == "reload":
            return self._lost()
        self.seq = seq
        return effect

    def _message(self, frame: Frame) -> Effect:
        held = HeldMessage(require(frame, "message", dict))
        known = self._held.get(held.message_id)
        if known is not None and held.revision <= known.revision:
            return "ignored"
        self._hold(held)
        self._take_interactions(held)
        self.total = max(self.total, held.sequence)
        turn_id = frame.get("turn_id")
        if known is None and frame.get("type") == "user" and turn_id is not None and not self._runs(turn_id):
            self.queue = [*self.queue, {"turn_id": turn_id, "message_id": held.message_id}]
        return "applied"

    def _part(self, frame: Frame) -> Effect:
        held, effect = self._next_revision(frame)
        if held is None:
            return effect
        part = require(frame, "part", dict)
        held.put_part(part, frame["revision"])
        if part.get("type") == "interaction":
            self._take_interaction(held.message_id, part)
        return effect

    def _delta(self, frame: Frame) -> Effect:
        held, effect = self._next_revision(frame)
        if held is None:
            return effect
        part_id = require(frame, "part_id", str)
        if not held.has_part(part_id):
            return "reload"
        held.append(part_id, require(frame, "type", str), require(frame, "delta", str), frame["revision"])
        return effect

    def _next_revision(self, frame: Frame) -> tuple[HeldMessage | None, Effect]:
        """The Message that this change is the next one of, or None and what to do instead."""
        held = self._held.get(require(frame, "message_id", str))
        revision = require(frame, "revision", int)
        if held is None or revision > held.revision + 1:
            return None, "reload"
        return (None, "ignored") if revision <= held.revision else (held, "applied")

    def _turn(self, frame: Frame) -> Effect:
        turn_id = require(frame, "turn_id", str)
        if frame.get("type") == "start":
            self.turn = {"turn_id": turn_id, "started_at": require(frame, "created_at", int)}
        elif frame.get("type") != "finish":
            return "applied"
        elif self._runs(turn_id):
            self.turn = None
        self.queue = [item for item in self.queue if item.get("turn_id") != turn_id]
        return "applied"

    def _session(self, frame: Frame) -> Effect:
        if frame.get("type") in ("title", "config"):
            field = frame["type"]
            self.session = {**(self.session or {}), field: frame.get(field)}
        return "applied"

    # ------------------------------------------------------------------------------------------------- other frames

    def _reload(self, frame: Frame) -> Effect:
        self._forget_flight()
        return self._lost() if self.status == "live" else "reload"

    def _unsubscribed(self, frame: Frame) -> Effect:
        self._forget_flight()
        self.reason = require(frame, "reason", str)
        self._become("error")
        return "applied"

    # -------------------------------------------------------------------------------------------------------- helpers

    def _lost(self) -> Effect:
        self._become("resyncing")
        return "reload"

    def _become(self, status: ViewStatus) -> None:
        if status != self.status:
            self.status = advance(VIEW, self.status, status)

    def _forget_flight(self) -> None:
        self._buffer.clear()
        self._parts.clear()

    def _runs(self, turn_id: str) -> bool:
        return self.turn is not None and self.turn.get("turn_id") == turn_id

    def _hold(self, held: HeldMessage) -> None:
        known = self._held.get(held.message_id)
        self._held[held.message_id] = held
        if known is None:
            insort(self._order, held, key=_sequence_of)
        else:
            self._order[self._order.index(known)] = held

    def _leaves_hole(self, before_sequence: int | None) -> bool:
        cursor = self.next_before_sequence
        return cursor is not None and before_sequence is not None and before_sequence < cursor

    def _set_cursor(self, page: Frame) -> None:
        self.has_more = require(page, "has_more", bool)
        self.next_before_sequence = page.get("next_before_sequence")

    def _take_interactions(self, held: HeldMessage) -> None:
        """The Interactions of a whole Message: also those whose Part is gone from it are taken out (T6)."""
        parts = [part for part in held.parts() if part.get("type") == "interaction"]
        present = {part.get("interaction_id") for part in parts}
        for key, item in list(self._interactions.items()):
            if item.get("message_id") == held.message_id and key not in present:
                del self._interactions[key]
        for part in parts:
            self._take_interaction(held.message_id, part)

    def _take_interaction(self, message_id: str, part: Frame) -> None:
        interaction_id = require(part, "interaction_id", str)
        if part.get("status") != "pending":
            self._interactions.pop(interaction_id, None)
            return
        item = {name: part[name] for name in _INTERACTION_FIELDS if name in part}
        self._interactions[interaction_id] = {**item, "message_id": message_id, "part_id": part.get("part_id")}


def _sequence_of(held: HeldMessage) -> int:
    return held.sequence
