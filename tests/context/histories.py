"""Histories for the Composer's tests: made by hand, or by Hypothesis from everything that history may hold."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET, structs

from store.builders import NOW, agent, create, save, user
from turnwire.models.base import ModelMessage, ToolCallContent, ToolResultContent
from turnwire.store.base import Store
from turnwire_protocol.messages import AgentMessage, Message, UserMessage, Visibility
from turnwire_protocol.parts import (
    ActionPart,
    AgentPart,
    ContextPart,
    DataPart,
    ErrorPart,
    FilePart,
    InteractionPart,
    ReasoningPart,
    SourcePart,
    TextPart,
    ToolPart,
)


def said(sequence: int, text: str, turn_id: str | None = None, **fields: Any) -> UserMessage:
    part = TextPart(part_id=f"p{sequence}", sequence=1, text=text)
    return user(sequence, parts=(part,), turn_id=UNSET if turn_id is None else turn_id, **fields)


def answered(sequence: int, text: str, turn_id: str | None = None, *more: AgentPart) -> AgentMessage:
    part = TextPart(part_id=f"p{sequence}", sequence=1, step_id=f"st{sequence}", text=text, state="done")
    return agent(sequence, part, *more, turn_id=UNSET if turn_id is None else turn_id)


def tool(part_id: str, sequence: int, step_id: str, state: Any = "completed", **fields: Any) -> ToolPart:
    values: dict[str, Any] = {"tool_name": "look", "input": {"at": part_id}, "output": f"saw {part_id}"} | fields
    return ToolPart(
        part_id=part_id, sequence=sequence, step_id=step_id, tool_call_id=f"c-{part_id}", state=state, **values
    )


async def fill(store: Store, messages: Sequence[Message]) -> None:
    await store.commit([create(), *save(*messages)])


# ------------------------------------------------------------------------------------------------------- any history

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | _text,
    lambda values: st.lists(values, max_size=2) | st.dictionaries(_text, values, max_size=2),
    max_leaves=4,
)
_step = st.sampled_from(["st1", "st2", UNSET])


def _place(part: Any, message: int, sequence: int) -> Any:
    placed = structs.replace(part, part_id=f"p{message}-{sequence}", sequence=sequence)
    if isinstance(placed, ToolPart):
        return structs.replace(placed, tool_call_id=f"c{message}-{sequence}")
    return placed


_of = {"part_id": st.just("p"), "sequence": st.just(1)}
_user_part = st.one_of(
    st.builds(TextPart, **_of, text=_text),
    st.builds(ContextPart, **_of, tag=st.from_regex(r"\A[a-z][a-z0-9_-]{0,5}\Z"), context=_text),
    st.builds(FilePart, **_of, url=_text, media_type=st.just("image/png"), filename=_text | st.just(UNSET)),
    st.builds(DataPart, **_of, data_type=st.just("d"), data=_json),
)
_agent_part = st.one_of(
    st.builds(TextPart, **_of, step_id=_step, text=_text, state=st.just("done")),
    st.builds(ReasoningPart, **_of, step_id=_step, text=_text, state=st.just("done")),
    st.builds(
        ToolPart,
        **_of,
        step_id=_step,
        tool_call_id=st.just("c"),
        tool_name=_text,
        state=st.sampled_from(["input-streaming", "ready", "waiting-user", "running", "completed", "failed"]),
        input_text=_text | st.just(UNSET),
        input=_json | st.just(UNSET),
        output=_json | st.just(UNSET),
        error=_text | st.just(UNSET),
    ),
    st.builds(
        InteractionPart,
        **_of,
        step_id=_step,
        interaction_id=st.just("i"),
        interaction_type=st.just("approval"),
        tool_call_id=st.just("c"),
        status=st.just("cancelled"),
        revision=st.just(1),
        request=_json,
    ),
    st.builds(FilePart, **_of, url=_text, media_type=st.just("a/b")),
    st.builds(DataPart, **_of, data_type=st.just("d"), data=_json),
    st.builds(SourcePart, **_of, source_type=st.just("url"), source_id=st.just("s")),
    st.builds(ActionPart, **_of, action_id=st.just("a"), action_type=_text, state=st.just("completed"), title=_text),
    st.builds(
        ErrorPart,
        **_of,
        scope=st.just("turn"),
        code=st.sampled_from(["stopped", "runtime_interrupted", "</notice>"]),
        message=_text,
        recoverable=st.just(True),
    ),
)
TURNS = ("t1", "t2", "t3", UNSET)


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Up to ten Messages with any Parts in any order and state, of any Turn, visible or not."""
    messages: list[Message] = []
    for sequence in range(1, draw(st.integers(1, 10)) + 1):
        fields: dict[str, Any] = {"turn_id": draw(st.sampled_from(TURNS))}
        if draw(st.booleans()):
            parts = draw(st.lists(_user_part, max_size=4))
            placed = tuple(_place(part, sequence, number) for number, part in enumerate(parts, start=1))
            visibility: Visibility = draw(st.sampled_from(["visible", "internal"]))
            messages.append(user(sequence, parts=placed, visibility=visibility, **fields))
        else:
            parts = draw(st.lists(_agent_part, min_size=1, max_size=6))
            placed = tuple(_place(part, sequence, number) for number, part in enumerate(parts, start=1))
            messages.append(agent(sequence, *placed, **fields))
    return messages


def check_input(messages: Sequence[ModelMessage]) -> None:
    """What every provider demands of its input, whatever history holds."""
    expected: list[str] = []
    for message in messages:
        assert message.content, "no message is empty"
        calls = [part.tool_call_id for part in message.content if isinstance(part, ToolCallContent)]
        results = [part.tool_call_id for part in message.content if isinstance(part, ToolResultContent)]
        if message.role == "tool":
            assert results == expected, "each call has its result right after it"
            assert len(results) == len(message.content)
            expected = []
        else:
            assert not expected, "no call is without a result"
            assert not results
            assert message.role == "assistant" or not calls
            expected = calls
        for part in message.content:
            if isinstance(part, ToolCallContent):
                assert part.tool_name.isascii()
                assert 1 <= len(part.tool_name) <= 64
    assert not expected


__all__ = ["NOW", "answered", "check_input", "fill", "histories", "said", "tool"]
