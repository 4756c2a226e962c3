"""One example of every frame that a server sends, built of the structs, in both formats (W2).

A client's codec is tested with them, and the schema is tested against them.
"""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from turnwire_protocol import frames, mutations, parts
from turnwire_protocol.codec import encode, encode_mutation
from turnwire_protocol.messages import AgentMessage, Config, Origin, Page, Session, UserMessage
from vector_cases.frames import NOW, OVERLOADED, Plain

SAFE = parts.MAX_SAFE_INTEGER
ServerValue: TypeAlias = "frames.ServerFrame | mutations.Mutation"

TEXT = parts.TextPart(part_id="p1", sequence=1, text='Hé, 🌍 \u2028 "quoted" \\ \u0000 </script>')

AGENT_PARTS: tuple[parts.AgentPart, ...] = (
    parts.TextPart(part_id="a1", sequence=1, step_id="x1", text="Hello", state="streaming"),
    parts.ReasoningPart(part_id="a2", sequence=2, text="", state="done"),
    parts.ToolPart(
        part_id="a3",
        sequence=3,
        tool_call_id="c1",
        tool_name="shell",
        state="completed",
        input_text='{"command": "ls"}',
        input={"command": "ls"},
        output={"lines": ["a", 1, -1, 0.5, True, None, SAFE, -SAFE]},
        title="List files",
    ),
    parts.ToolPart(
        part_id="a4", sequence=4, tool_call_id="c2", tool_name="shell", state="failed", error="input: not JSON"
    ),
    parts.InteractionPart(
        part_id="a5",
        sequence=5,
        interaction_id="i1",
        interaction_type="approval",
        tool_call_id="c1",
        status="resolved",
        revision=7,
        request={"tool_name": "shell", "input": {"command": "ls"}},
        response={"decision": "approved"},
        resolved_by="ann",
        resolved_at=NOW,
    ),
    parts.FilePart(part_id="a6", sequence=6, url="https://example.com/a", media_type="image/png", filename="a.png"),
    parts.DataPart(part_id="a7", sequence=7, data_type="chart", data=[[0, 1.5]], data_id="d1"),
    parts.SourcePart(
        part_id="a8", sequence=8, source_type="url", source_id="s", url="https://example.com", title="Example"
    ),
    parts.ActionPart(
        part_id="a9",
        sequence=9,
        action_id="n1",
        action_type="context-compaction",
        state="completed",
        title="Compacted",
        description="12 Messages",
        data={"messages": 12},
    ),
    parts.ErrorPart(part_id="a10", sequence=10, scope="turn", code="stopped", message="Stopped.", recoverable=True),
)

USER_PARTS: tuple[parts.UserPart, ...] = (
    TEXT,
    parts.ContextPart(part_id="p2", sequence=2, tag="page", context="</page>"),
    parts.FilePart(part_id="p3", sequence=3, url="data:,", media_type="text/plain"),
    parts.DataPart(part_id="p4", sequence=4, data_type="form", data=None),
)

USER = UserMessage(
    message_id="m1",
    session_id="s1",
    turn_id="t1",
    sequence=1,
    revision=1,
    created_at=NOW,
    updated_at=NOW,
    origin=Origin(session_id="s0", message_id="m0"),
    parts=USER_PARTS,
)
AGENT = AgentMessage(
    message_id="m2",
    session_id="s1",
    sequence=2,
    revision=12,
    state="streaming",
    visibility="internal",
    created_at=NOW,
    updated_at=NOW,
    parts=AGENT_PARTS,
)

SESSION = Session(
    session_id="s1",
    title="A title",
    config=Config(model="m", approval_mode="always-allow"),
    metadata={"k": [1]},
    created_at=NOW,
    updated_at=NOW,
    archived_at=NOW,
    message_count=2,
    preview="Hello",
    executing=True,
    origin=Origin(session_id="s0"),
)

FRAMES: dict[str, frames.ServerFrame] = {
    "welcome": frames.Welcome(
        id=1,
        protocol=1,
        server="turnwire/0.1.0",
        limits=frames.Limits(max_frame=4194304, max_request=1048576, page=50, max_page=200, max_subscriptions=100),
        tick_ms=15000,
        principal=frames.Principal(id="local"),
    ),
    "tick": frames.Tick(),
    "result": frames.Result(id=2, result={}),
    "result with a Session": frames.Result(id=3, result=frames.SessionResult(SESSION)),
    "error": frames.Error(
        id=4, code="invalid_argument", message="limit: expected an integer >= 1", field="limit", retryable=False
    ),
    "error that belongs to no request": frames.Error(code="invalid_frame", message="not JSON", retryable=False),
    "error of an answer that came too late": frames.Error(
        id=5,
        code="already_resolved",
        message="ann answered first",
        retryable=False,
        status="resolved",
        response={"decision": "approved"},
        by="ann",
        at=NOW,
    ),
    "snapshot": frames.Snapshot(
        session_id="s1",
        epoch="e1",
        seq=41,
        session=SESSION,
        page=Page(items=(USER, AGENT), total=2, start_sequence=1, end_sequence=2, has_more=False),
        turn=frames.ActiveTurn(turn_id="t1", started_at=NOW),
        queue=(frames.QueuedPrompt(turn_id="t2", message_id="m3"),),
        interactions=(
            frames.PendingInteraction(
                interaction_id="i2",
                interaction_type="question",
                tool_call_id="c3",
                message_id="m2",
                part_id="a11",
                revision=12,
                request={"questions": [{"question_id": "q1", "question": "Which?"}]},
            ),
        ),
        part=1,
        parts=1,
    ),
    "snapshot of an empty Session": frames.Snapshot(
        session_id="s1",
        epoch="e1",
        seq=0,
        session=Session(
            session_id="s1", config=Config(), created_at=NOW, updated_at=NOW, message_count=0, executing=False
        ),
        page=Page(items=(), total=0, has_more=False),
        queue=(),
        interactions=(),
        part=1,
        parts=1,
    ),
    "reload": frames.ReloadNotice(session_id="s1", reason="lagged"),
    "unsubscribed": frames.Unsubscribed(session_id="s1", reason="deleted"),
    "draining": frames.Draining(retry_after_ms=1200),
}

_X: Any = {"mutation_id": "x1", "session_id": "s1", "created_at": NOW}
_OF: Any = {"message_id": "m2", "revision": 13, "turn_id": "t1"}

MUTATIONS: dict[str, mutations.Mutation] = {
    "message of the user": mutations.MessageMutation(
        **_X, type="user", message_id="m1", sequence=1, revision=1, turn_id="t1", message=USER
    ),
    "message of the agent": mutations.MessageMutation(
        **_X, type="agent", message_id="m2", sequence=2, revision=12, message=AGENT
    ),
    **{
        f"part {part.part_id}": mutations.PartMutation(
            **_X, **_OF, type=str(part.__struct_config__.tag), part_id=part.part_id, part=part
        )
        for part in AGENT_PARTS
    },
    "delta text": mutations.DeltaMutation(**_X, **_OF, type="text", part_id="a1", delta="🌍"),
    "delta reasoning": mutations.DeltaMutation(**_X, **_OF, type="reasoning", part_id="a2", delta="so"),
    "delta tool_input": mutations.DeltaMutation(
        **_X, **_OF, type="tool_input", part_id="a3", delta='{"', tool_call_id="c1"
    ),
    "turn start": mutations.TurnStart(**_X, turn_id="t1"),
    "turn finish": mutations.TurnFinish(**_X, turn_id="t1", status="completed"),
    "turn finish with an error": mutations.TurnFinish(
        **_X, turn_id="t1", status="failed", error=mutations.TurnError(code="overloaded", message="Overloaded.")
    ),
    "file_diff": mutations.FileDiff(
        **_X,
        turn_id="t1",
        files=(
            mutations.FileChange(path="a.py", status="modified", additions=1, deletions=2, patch="@@"),
            mutations.FileChange(path="b.py", status="deleted", additions=0, deletions=9),
        ),
        additions=1,
        deletions=11,
    ),
    "session title": mutations.SessionTitle(**_X, title="A title"),
    "session config": mutations.SessionConfig(**_X, config=Config()),
    "warning model_request": mutations.ModelRequestWarning(**_X, **OVERLOADED),
    "warning model_request of a title": mutations.ModelRequestWarning(
        **_X,
        request_kind="title",
        code="auth",
        message="The key was refused.",
        retryable=False,
        attempt=3,
        max_attempts=3,
        will_retry=False,
    ),
}


def encoded() -> Iterator[tuple[str, bytes, bytes]]:
    """Name, JSON and MessagePack of every example."""
    for name, frame in FRAMES.items():
        yield name, encode(frame, "json"), encode(frame, "msgpack")
    for name, mutation in MUTATIONS.items():
        json_, packed = (encode_mutation(mutation, epoch="e1", seq=42, format=format) for format in ("json", "msgpack"))
        yield f"mutation {name}", json_, packed


def server_frames() -> list[Plain]:
    """Each example in both formats with the one value that both stand for."""
    cases: list[Plain] = []
    for name, text, packed in encoded():
        value = msgspec.to_builtins(json.loads(text))
        common = {"name": name, "rules": ["W2"]}
        cases.append({**common, "format": "json", "text": text.decode(), "value": value})
        cases.append({**common, "format": "msgpack", "hex": packed.hex(), "value": value})
    return cases
