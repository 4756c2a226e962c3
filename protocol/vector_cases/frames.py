"""Plain frames, Messages and Parts to build cases of; every default is what a healthy server would send."""

from collections.abc import Sequence
from typing import Any

Plain = dict[str, Any]

SESSION = "s1"
EPOCH = "e1"
NOW = 1_700_000_000_000


def session(**changes: Any) -> Plain:
    return {
        "session_id": SESSION,
        "title": "A title",
        "config": {"approval_mode": "ask"},
        "created_at": NOW,
        "updated_at": NOW,
        "message_count": 1,
        "executing": False,
        **changes,
    }


# ---------------------------------------------------------------------------------------------------------- Messages


def text(content: str, *, number: int = 1, state: str | None = None, **more: Any) -> Plain:
    part = {"part_id": f"p{number}", "sequence": number, "type": "text", "text": content, **more}
    return part if state is None else {**part, "state": state}


def reasoning(content: str, *, number: int = 1, state: str = "streaming") -> Plain:
    return {"part_id": f"p{number}", "sequence": number, "type": "reasoning", "text": content, "state": state}


def tool(state: str, *, number: int = 1, **more: Any) -> Plain:
    identity = {"part_id": f"p{number}", "sequence": number, "type": "tool"}
    return {**identity, "tool_call_id": "c1", "tool_name": "shell", "state": state, **more}


def interaction(status: str, revision: int, *, number: int = 2, **more: Any) -> Plain:
    return {
        "part_id": f"p{number}",
        "sequence": number,
        "type": "interaction",
        "interaction_id": "i1",
        "interaction_type": "approval",
        "tool_call_id": "c1",
        "status": status,
        "revision": revision,
        "request": {"tool_name": "shell", "input": {"command": "ls"}},
        **more,
    }


WAITING = tool("waiting-user", input={"command": "ls"})
"""The Tool that waits for such an Interaction."""


def pending(revision: int, message_id: str = "m2", **changes: Any) -> Plain:
    """What `interactions` holds for `interaction("pending", revision)`."""
    return {
        "interaction_id": "i1",
        "interaction_type": "approval",
        "tool_call_id": "c1",
        "message_id": message_id,
        "part_id": "p2",
        "revision": revision,
        "request": {"tool_name": "shell", "input": {"command": "ls"}},
        **changes,
    }


def user(sequence: int, *parts: Plain, revision: int = 1, turn_id: str = "t1", **more: Any) -> Plain:
    return {
        "message_id": f"m{sequence}",
        "session_id": SESSION,
        "turn_id": turn_id,
        "sequence": sequence,
        "revision": revision,
        "role": "user",
        "visibility": "visible",
        "created_at": NOW + sequence,
        "updated_at": NOW + sequence,
        "parts": list(parts) or [text(f"prompt {sequence}")],
        **more,
    }


def agent(
    sequence: int, *parts: Plain, revision: int = 1, state: str = "streaming", turn_id: str = "t1", **more: Any
) -> Plain:
    return {**user(sequence, *parts, revision=revision, turn_id=turn_id), "role": "agent", "state": state, **more}


def users(first: int, last: int) -> list[Plain]:
    """One prompt for each sequence from `first` to `last`."""
    return [user(sequence) for sequence in range(first, last + 1)]


def answer(content: str, revision: int, *, sequence: int = 2) -> Plain:
    """An Agent Message whose only Part is still growing."""
    return agent(sequence, text(content, state="streaming"), revision=revision)


# ------------------------------------------------------------------------------------------------------------ frames


def page(*items: Plain, total: int | None = None, next_before: int | None = None) -> Plain:
    """A page; `total` defaults to the greatest sequence, `next_before` says that older Messages exist."""
    result: Plain = {"items": list(items), "total": total if total is not None else 0, "has_more": False}
    if items:
        result["start_sequence"] = items[0]["sequence"]
        result["end_sequence"] = items[-1]["sequence"]
        result["total"] = total if total is not None else items[-1]["sequence"]
    if next_before is not None:
        result |= {"has_more": True, "next_before_sequence": next_before}
    return result


NEWEST = page(*users(7, 8), next_before=7)
"""What a view shows of eight Messages before it asks for older ones."""


def snapshot(
    seq: int,
    *items: Plain,
    epoch: str = EPOCH,
    turn: str | None = None,
    queue: Sequence[Plain] = (),
    interactions: Sequence[Plain] = (),
    part: int = 1,
    parts: int = 1,
    of: Plain | None = None,
    about: Plain | None = None,
) -> Plain:
    """A `snapshot` frame with the page `of`, or with one made of `items`."""
    frame = {
        "op": "snapshot",
        "session_id": SESSION,
        "epoch": epoch,
        "seq": seq,
        "session": about or session(),
        "page": of or page(*items),
        "queue": list(queue),
        "interactions": list(interactions),
        "part": part,
        "parts": parts,
    }
    return frame if turn is None else {**frame, "turn": started(turn)}


def started(turn_id: str, at: int = NOW) -> Plain:
    return {"turn_id": turn_id, "started_at": at}


def mutation(seq: int, variant: str, *, epoch: str = EPOCH, **fields: Any) -> Plain:
    envelope = {"mutation_id": f"x{seq}", "session_id": SESSION, "created_at": NOW + seq}
    return {"op": "mutation", "epoch": epoch, "seq": seq, "variant": variant, **envelope, **fields}


def message(seq: int, of: Plain, **more: Any) -> Plain:
    same: Plain = {name: of[name] for name in ("message_id", "sequence", "revision", "turn_id") if name in of}
    return mutation(seq, "message", type=of["role"], **same, message=of, **more)


def part(seq: int, revision: int, of: Plain, *, message_id: str = "m2", **more: Any) -> Plain:
    identity: Plain = {"message_id": message_id, "revision": revision, "part_id": of["part_id"]}
    return mutation(seq, "part", type=of["type"], **identity, part=of, **more)


def delta(
    seq: int, revision: int, fragment: str, *, number: int = 1, kind: str = "text", message_id: str = "m2", **more: Any
) -> Plain:
    identity: Plain = {"message_id": message_id, "revision": revision, "part_id": f"p{number}"}
    if kind == "tool_input":
        identity["tool_call_id"] = "c1"
    return mutation(seq, "delta", type=kind, **identity, delta=fragment, **more)


FILE_DIFF: Plain = {
    "turn_id": "t1",
    "files": [{"path": "a", "status": "added", "additions": 1, "deletions": 0}],
    "additions": 1,
    "deletions": 0,
}
OVERLOADED: Plain = {
    "type": "model_request",
    "request_kind": "turn",
    "turn_id": "t1",
    "code": "overloaded",
    "message": "The model is overloaded.",
    "retryable": True,
    "attempt": 1,
    "max_attempts": 3,
    "will_retry": True,
    "retry_in_ms": 500,
}
"""What a `file_diff` and a `warning` say, without the envelope."""


def turn_start(seq: int, turn_id: str) -> Plain:
    return mutation(seq, "turn", type="start", turn_id=turn_id)


def turn_finish(seq: int, turn_id: str, status: str = "completed") -> Plain:
    return mutation(seq, "turn", type="finish", turn_id=turn_id, status=status)


def reload(reason: str = "lagged") -> Plain:
    return {"op": "reload", "session_id": SESSION, "reason": reason}


def unsubscribed(reason: str = "deleted") -> Plain:
    return {"op": "unsubscribed", "session_id": SESSION, "reason": reason}


# ------------------------------------------------------------------------------------------------- an answer by letters

LETTERS = "abcdef"
BEFORE_LETTERS = 4
"""The seq at which the answer is not there yet. From then on each Mutation adds a letter and a revision."""


def letter(seq: int, **more: Any) -> Plain:
    """The delta that makes `answer_at(seq)` of the answer before it."""
    revision = seq - BEFORE_LETTERS
    return delta(seq, revision, LETTERS[revision - 1], **more)


def answer_at(seq: int, **more: Any) -> Plain:
    revision = seq - BEFORE_LETTERS
    return answer(LETTERS[:revision], revision, **more)


def snapshot_at(seq: int, **more: Any) -> Plain:
    """A snapshot that holds the answer and nothing else."""
    return snapshot(seq, answer_at(seq), **more)


# ------------------------------------------------------------------------------------------------------------- cases


def got(frame: Plain, effect: str = "applied") -> Plain:
    return {"receive": frame, "effect": effect}


def added(of: Plain, before: int | None = None, effect: str = "applied") -> Plain:
    """The result of `messages`, asked for with `before_sequence`."""
    step: Plain = {"add_page": of, "effect": effect}
    return step if before is None else {**step, "before_sequence": before}


DISCONNECTED: Plain = {"disconnected": True}


def case(name: str, rules: str, *steps: Plain, **expect: Any) -> Plain:
    return {"name": name, "rules": rules.split(), "session_id": SESSION, "steps": list(steps), "expect": expect}
