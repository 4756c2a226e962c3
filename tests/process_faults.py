"""The faults of broken servers that show when their process ends and the next one begins, as liars on the line."""

from typing import Any

from lying_stream import Liar
from server_faults import RunsTwice, of_page

Map = dict[str, Any]


class OneEpochForAll(Liar):
    """Does not tell one process of the server from the next."""

    def said(self, frame: Map) -> list[Map]:
        if "epoch" in frame:
            return [{**frame, "epoch": "always"}]
        result = frame.get("result")
        if isinstance(result, dict) and "epoch" in result:
            return [{**frame, "result": {**result, "epoch": "always"}}]
        return [frame]


class ForgetsReceipts(RunsTwice):
    """A new process does not know a request again."""

    def asked(self, request: Map) -> list[Map]:
        return [request] if self.process == 1 else super().asked(request)


class LosesAnswers(Liar):
    """What the agent has said is gone with the process."""

    def said(self, frame: Map) -> list[Map]:
        if self.process == 1:
            return [frame]
        return [of_page(frame, lambda items: [item for item in items if item["role"] == "user"])]


class GivesRevisionsAgain(Liar):
    """A new process counts a Message's revisions from the beginning."""

    def said(self, frame: Map) -> list[Map]:
        if self.process == 1:
            return [frame]
        return [of_page(frame, lambda items: [{**item, "revision": 1} for item in items])]


class BringsNothingToRest(Liar):
    """A new process leaves Messages, Tools and cards as the old one left them."""

    def said(self, frame: Map) -> list[Map]:
        if self.process == 1:
            return [frame]
        return [of_page(frame, lambda items: [_as_it_was(item) for item in items])]


def _as_it_was(message: Map) -> Map:
    if message["role"] == "user":
        return message
    parts = [
        {**part, "status": "pending"} if part["type"] == "interaction" else part
        for part in _without_errors(message)["parts"]
    ]
    return {**message, "state": "streaming", "parts": parts}


class OffersOldCards(Liar):
    """A new process still asks what the old one had asked."""

    def said(self, frame: Map) -> list[Map]:
        if self.process == 1 or frame["op"] != "snapshot":
            return [frame]
        cards = [
            {**part, "message_id": item["message_id"]}
            for item in frame["page"]["items"]
            for part in item["parts"]
            if part["type"] == "interaction"
        ]
        return [{**frame, "interactions": cards}]


class StopsWithoutAWord(Liar):
    """Does not announce that it is about to go."""

    def said(self, frame: Map) -> list[Map]:
        return [] if frame["op"] == "draining" else [frame]


class TakesPromptsWhileItStops(Liar):
    """Accepts what it will never do."""

    def said(self, frame: Map) -> list[Map]:
        if frame["op"] != "error" or frame["code"] != "draining":
            return [frame]
        receipt = {"outcome": "queued", "turn_id": "t", "message_id": "m", "sequence": 3}
        return [{"op": "result", "id": frame["id"], "result": receipt}]


class KeepsNoReason(Liar):
    """Nobody who comes to a new process learns why a Turn has ended."""

    def said(self, frame: Map) -> list[Map]:
        if self.process == 1:
            return [frame]
        return [of_page(frame, lambda items: [_without_errors(item) for item in items])]


def _without_errors(message: Map) -> Map:
    return {**message, "parts": [part for part in message["parts"] if part["type"] != "error"]}


class OneCloseCodeForAll(Liar):
    """Closes as if nobody were to come back."""

    def closes(self, code: int) -> int:
        return 1000


class ExitsInDisorder(Liar):
    exit_code = 3
