"""Comparing what clients hold, with each other and with history; and saying where two values differ."""

from typing import Any, Final

from turnwire.conformance.patterns import Mismatch
from turnwire.conformance.shapes import Map
from turnwire.conformance.verdict import Broken
from turnwire_protocol.view import SessionView

SHOWN_CHARACTERS: Final = 160
"""How much of a value is shown to the reader of a verdict."""


def state_of(view: SessionView) -> Map:
    """The view's state as one map, as timelines speak of it; what is absent is left out."""
    names = ("status", "reason", "epoch", "seq", "session", "messages", "turn", "queue", "interactions", "total")
    state = {name: getattr(view, name) for name in (*names, "has_more", "next_before_sequence")}
    return {name: value for name, value in state.items() if value is not None}


def comparable(view: SessionView, start: int) -> Map:
    """What two who follow at the same point must agree on; they may hold histories of different length."""
    state = state_of(view)
    state["messages"] = [message for message in state["messages"] if message["sequence"] >= start]
    session = state.pop("session", {})  # counts and times are those of its last snapshot
    state["settings"] = [session.get("title"), session.get("config")]
    for name in ("has_more", "next_before_sequence"):
        state.pop(name, None)
    return state


def difference(first: Any, second: Any) -> str:
    """Where two values differ first, and how."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            if first.get(key, Ellipsis) != second.get(key, Ellipsis):
                return f".{key}{difference(first.get(key), second.get(key))}"
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for index, (left, right) in enumerate(zip(first, second, strict=True)):
            if left != right:
                return f"[{index}]{difference(left, right)}"
    return f": {short(first)} and {short(second)}"


def short(value: Any) -> str:
    """The value as text, cut off where it gets long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}…"


def check_snapshot(snapshot: Map, view: SessionView) -> None:
    """A Message at the revision at which the view holds it already is the same (S6). Raises Broken."""
    if snapshot["epoch"] != view.epoch:
        return
    held = {(message["message_id"], message["revision"]): message for message in view.messages}
    for message in snapshot["page"]["items"]:
        known = held.get((message["message_id"], message["revision"]), message)
        if known != message:
            where = f"revision {message['revision']} of Message {message['message_id']}"
            raise Broken("S6", f"{where} is another in the snapshot than before: {difference(known, message)}")


def check_history(items: list[Map], total: int, view: SessionView | None) -> None:
    """All Messages of a Session, from its pages, against each other and against a view that follows it.

    Raises Broken, Mismatch.
    """
    sequences = [item["sequence"] for item in items]
    if sequences != list(range(1, total + 1)):
        raise Broken("M3", f"the pages hold the sequences {sequences}, total is {total}")
    if view is None or view.status != "live":
        return
    stored = {item["message_id"]: item for item in items}
    for message in view.messages:
        if stored.get(message["message_id"]) != message:
            found = difference(stored.get(message["message_id"]), message)
            raise Mismatch(f"a Message of the client's view is not as in history: {found}")
