"""One Message as a client holds it: plain maps, Parts by id, text that grows in linear time (P1, P2, L4).

What to do about revisions, gaps and snapshots is `view`.
"""

from bisect import insort
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

Plain: TypeAlias = dict[str, Any]
"""A map as it came off the wire."""

GROWING_FIELDS: Final = {"text": "text", "reasoning": "text", "tool_input": "input_text"}
"""Which field of its Part a `delta` of this type appends to."""

T = TypeVar("T")


class MalformedFrame(ValueError):
    """The server sent a frame that lacks a field every version has, or has it with a wrong type."""


def require(holder: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """`holder[name]`, which must be a `kind`. Raises MalformedFrame."""
    value = holder.get(name)
    if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    raise MalformedFrame(f"{name}: expected {kind.__name__}, got {type(value).__name__}")


def _sequence_of(part: Plain) -> int:
    return int(part["sequence"])


class HeldMessage:
    """A Message that takes in Parts and deltas. It copies what it changes and never touches the map it was made of."""

    __slots__ = ("_message", "_parts", "_tails", "message_id", "revision", "sequence")

    def __init__(self, message: Mapping[str, Any]) -> None:
        self.message_id = require(message, "message_id", str)
        self.sequence = require(message, "sequence", int)
        self.revision = require(message, "revision", int)
        parts: list[Plain] = [dict(part) for part in require(message, "parts", list)]
        for part in parts:
            require(part, "sequence", int)
        self._message: Plain = {**message, "parts": parts}
        self._parts: dict[str, Plain] = {require(part, "part_id", str): part for part in parts}
        self._tails: dict[str, tuple[str, list[str]]] = {}

    def has_part(self, part_id: str) -> bool:
        return part_id in self._parts

    def parts(self) -> Iterator[Plain]:
        """The Parts in order, without the text that is still to be joined."""
        yield from self._message["parts"]

    def may_change(self, running: str | None) -> bool:
        """Whether the server may still change this Message, as far as is known here; `running` is the running Turn."""
        message = self._message
        if message.get("role") == "user":
            return False
        if message.get("state") != "done" or (running is not None and message.get("turn_id") == running):
            return True
        return any(part.get("type") == "action" and part.get("state") == "running" for part in message["parts"])

    def put_part(self, part: Mapping[str, Any], revision: int) -> None:
        """Replaces the Part with the same `part_id`, or inserts this one by its `sequence`."""
        part_id = require(part, "part_id", str)
        require(part, "sequence", int)
        known = self._parts.get(part_id)
        self._tails.pop(part_id, None)
        if known is None:
            self._parts[part_id] = new = dict(part)
            insort(self._message["parts"], new, key=_sequence_of)
        else:
            known.clear()
            known.update(part)
        self.revision = revision

    def append(self, part_id: str, delta_type: str, text: str, revision: int) -> None:
        """Appends to a known Part; a delta of an unknown type only counts as a revision (P2)."""
        field = GROWING_FIELDS.get(delta_type)
        if field is not None:
            tail = self._tails.get(part_id)
            if tail is None:
                tail = self._tails[part_id] = (field, [])
            tail[1].append(text)
        self.revision = revision

    def plain(self) -> Plain:
        """The Message as a map. It belongs to the view, and changes when further frames are received."""
        for part_id, (field, chunks) in self._tails.items():
            part = self._parts[part_id]
            part[field] = part.get(field, "") + "".join(chunks)
        self._tails.clear()
        self._message["revision"] = self.revision
        return self._message
