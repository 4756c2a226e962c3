"""The faults of deliberately broken servers, as liars on the line: one for each family of rules.

Those about tokens are in `token_faults`, those about the end of a process in `process_faults`.
"""

from collections.abc import Callable
from itertools import count
from typing import Any

from msgspec import structs

from lying_stream import Liar
from turnwire_protocol.codec import OPS, Format

Map = dict[str, Any]

KNOWN: dict[str, set[str]] = {
    op: {"op", *(field.encode_name for field in structs.fields(struct))} for op, struct in OPS.items()
}


def without(frame: Map, *names: str) -> Map:
    return {name: value for name, value in frame.items() if name not in names}


def is_mutation(frame: Map, *variants: str) -> bool:
    return frame["op"] == "mutation" and (not variants or frame["variant"] in variants)


def of_page(frame: Map, change: Callable[[list[Map]], list[Map]]) -> Map:
    """The frame with other Messages in its page, if it is a snapshot or a page of history."""
    if frame["op"] == "snapshot":
        return {**frame, "page": {**frame["page"], "items": change(frame["page"]["items"])}}
    result = frame.get("result", {})
    if "items" in result and "total" in result:
        return {**frame, "result": {**result, "items": change(result["items"])}}
    return frame


class Nth:
    """True for the n-th of what it is asked about, and for no other."""

    def __init__(self, n: int) -> None:
        self._left = n

    def __call__(self, relevant: bool) -> bool:
        self._left -= relevant
        return relevant and self._left == 0


class SkipsASeq(Liar):
    """The fourth Mutation of a connection never arrives."""

    def __init__(self) -> None:
        self._fourth = Nth(4)

    def said(self, frame: Map) -> list[Map]:
        return [] if self._fourth(is_mutation(frame)) else [frame]


class RepeatsADelta(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [frame, frame] if is_mutation(frame, "delta") else [frame]


class WrongRevision(Liar):
    """A `message` carries a revision that nothing led to."""

    def said(self, frame: Map) -> list[Map]:
        if is_mutation(frame, "message") and frame["type"] == "agent" and frame["revision"] > 1:
            revision = frame["revision"] + 1
            return [{**frame, "revision": revision, "message": {**frame["message"], "revision": revision}}]
        return [frame]


class MutatesAfterReload(Liar):
    """Tells the client to reload, and goes on all the same."""

    def said(self, frame: Map) -> list[Map]:
        if is_mutation(frame, "turn") and frame["type"] == "start":
            return [{"op": "reload", "session_id": frame["session_id"], "reason": "lagged"}, frame]
        return [frame]


class AnswersTwice(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [frame, frame] if frame["op"] == "result" else [frame]


class NeverTicks(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [] if frame["op"] == "tick" else [frame]


class ClosesSlowReaders(Liar):
    """Throws out whoever does not read in time."""

    closes_when_full = True


class FollowsOneSession(Liar):
    """Of the Sessions that a connection subscribes to, only the first is ever heard of again."""

    def __init__(self) -> None:
        self._first: str | None = None

    def asked(self, request: Map) -> list[Map]:
        if request.get("op") == "subscribe" and self._first is None:
            self._first = request.get("session_id")
        return [request]

    def said(self, frame: Map) -> list[Map]:
        return [] if is_mutation(frame) and frame["session_id"] != self._first else [frame]


class ErrorsWithoutField(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [without(frame, "field")] if frame["op"] == "error" else [frame]


class ErrorsWithoutCode(Liar):
    """An error that a program cannot understand."""

    def said(self, frame: Map) -> list[Map]:
        return [without(frame, "code")] if frame["op"] == "error" else [frame]


class AcceptsUnknownFields(Liar):
    def asked(self, request: Map) -> list[Map]:
        known = KNOWN.get(str(request.get("op")))
        return [request if known is None else {name: value for name, value in request.items() if name in known}]


class SnapshotWithAHole(Liar):
    """The newest Message is not in it."""

    def said(self, frame: Map) -> list[Map]:
        return [of_page(frame, lambda items: items[:-1])] if frame["op"] == "snapshot" else [frame]


class SnapshotFromTheStore(Liar):
    """A snapshot without the text that streams just now, as if the projection were not overlaid."""

    def said(self, frame: Map) -> list[Map]:
        if frame["op"] == "snapshot":
            return [of_page(frame, lambda items: [_without_text(item) for item in items])]
        return [frame]


def _without_text(message: Map) -> Map:
    parts = [
        {**part, "text": ""} if part.get("state") == "streaming" and "text" in part else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}


class SnapshotOfAnotherPoint(Liar):
    """The result of `subscribe` and its snapshot do not agree."""

    def said(self, frame: Map) -> list[Map]:
        return [{**frame, "seq": frame["seq"] + 1}] if frame["op"] == "snapshot" else [frame]


class JsonForAll(Liar):
    """Has forgotten what was negotiated."""

    def format(self, format: Format) -> Format:
        return "json"


class OneStatusForAllRefusals(Liar):
    """Does not say why it lets nobody in."""

    def status(self, status: int) -> int:
        return 404 if status >= 400 else status


class FindsEveryPath(Liar):
    def status(self, status: int) -> int:
        return 200 if status == 404 else status


class FramesAboveTheLimit(Liar):
    """Promises frames that are smaller than those it sends."""

    def said(self, frame: Map) -> list[Map]:
        if frame["op"] == "welcome":
            return [{**frame, "limits": {**frame["limits"], "max_frame": 250_000}}]
        return [frame]


class GoesOnAfterUnsubscribe(Liar):
    def asked(self, request: Map) -> list[Map]:
        return [{"op": "ping", "id": request["id"]}] if request.get("op") == "unsubscribe" else [request]


class NoEnvelope(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [without(frame, "created_at")] if is_mutation(frame) else [frame]


class LosesWhatItMerges(Liar):
    """Of text that came in several pieces only the first goes out."""

    def said(self, frame: Map) -> list[Map]:
        return [{**frame, "delta": frame["delta"].split(" ")[0] + " "}] if is_mutation(frame, "delta") else [frame]


class WarningWithoutAttempt(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [without(frame, "attempt")] if is_mutation(frame, "warning") else [frame]


class DeltaOfNothing(Liar):
    """Deltas of a Part that was never published."""

    def said(self, frame: Map) -> list[Map]:
        return [{**frame, "part_id": "part-of-nothing"}] if is_mutation(frame, "delta") else [frame]


class DiffWithoutCounts(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [{**frame, "additions": 0}] if is_mutation(frame, "file_diff") else [frame]


class RunsTwice(Liar):
    """Does not know a request again."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def asked(self, request: Map) -> list[Map]:
        if isinstance(request.get("client_request_id"), str):
            return [
                {**request, "client_request_id": f"{request['client_request_id']}-{id(self)}-{next(self._numbers)}"}
            ]
        return [request]


class IgnoresConditions(Liar):
    def asked(self, request: Map) -> list[Map]:
        return [without(request, "if_idle", "expected_turn_id")]


class AlwaysExecuting(Liar):
    """Says of a Session that has said something that it still runs."""

    def said(self, frame: Map) -> list[Map]:
        session = frame.get("result", {}).get("session") if frame["op"] == "result" else None
        if session and session["message_count"]:
            return [{**frame, "result": {"session": {**session, "executing": True}}}]
        return [frame]


class FinishesTwice(Liar):
    """Tells the end of each Turn twice, under numbers in order."""

    def __init__(self) -> None:
        self._more: dict[str, int] = {}

    def said(self, frame: Map) -> list[Map]:
        session_id = frame.get("session_id", "")
        if not is_mutation(frame):
            self._more.pop(session_id, None)
            return [frame]
        first = {**frame, "seq": frame["seq"] + self._more.get(session_id, 0)}
        if frame["variant"] != "turn" or frame["type"] != "finish":
            return [first]
        self._more[session_id] = self._more.get(session_id, 0) + 1
        return [first, {**first, "seq": first["seq"] + 1}]


class LastAnswerWins(Liar):
    """Tells the loser that it won."""

    def said(self, frame: Map) -> list[Map]:
        if frame["op"] == "error" and frame["code"] == "already_resolved":
            result = {"status": frame["status"], "response": frame.get("response", {})}
            return [{"op": "result", "id": frame["id"], "result": result}]
        return [frame]


class PagesWithAHole(Liar):
    def said(self, frame: Map) -> list[Map]:
        return [of_page(frame, lambda items: items[1:] or items)] if frame["op"] == "result" else [frame]


class ForgetsCards(Liar):
    """Pending Interactions are not in the snapshot."""

    def said(self, frame: Map) -> list[Map]:
        return [{**frame, "interactions": []}] if frame["op"] == "snapshot" else [frame]


class EpochForEach(Liar):
    """Gives every connection an epoch of its own."""

    def said(self, frame: Map) -> list[Map]:
        mine = f"-{id(self)}"
        if "epoch" in frame:
            return [{**frame, "epoch": frame["epoch"] + mine}]
        result = frame.get("result")
        if isinstance(result, dict) and "epoch" in result:
            return [{**frame, "result": {**result, "epoch": result["epoch"] + mine}}]
        return [frame]
