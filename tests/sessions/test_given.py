"""What code in this process may give to a verb: no more than a request could say (W9)."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from sessions_world import MakeWorld, text_answer
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ConfigChange
from turnwire_protocol.parts import ContextInput, DataInput, FileInput, PartInput, TextInput, TextPart

CREATIONS: list[tuple[dict[str, Any], str]] = [
    ({"session_id": "a b"}, "session_id"),
    ({"session_id": 5}, "session_id"),
    ({"session_id": ""}, "session_id"),
    ({"title": 5}, "title"),
    ({"title": ""}, "title"),
    ({"title": "x" * 201}, "title"),
    ({"title": "\ud800"}, "title"),
    ({"config": {"modell": "x"}}, "config.modell"),
    ({"config": ConfigChange(approval_mode="always")}, "config.approval_mode"),  # type: ignore[arg-type]
    ({"metadata": {"a": [2**70]}}, "metadata.a[0]"),
    ({"metadata": {"a": object()}}, "metadata"),
    ({"metadata": {1: "a"}}, "metadata"),
    ({"metadata": [1]}, "metadata"),
    ({"client_request_id": "a b"}, "client_request_id"),
]


@pytest.mark.parametrize(("fields", "field"), CREATIONS)
async def test_W9_no_session_is_made_that_no_request_could_ask_for(
    fields: dict[str, Any], field: str, autojump_clock: object, world: MakeWorld
) -> None:
    async with world() as w:
        with pytest.raises(RequestError) as refused:
            await w.registry.create(**fields)
        assert (refused.value.code, refused.value.field) == ("invalid_argument", field)
        assert (await w.registry.list()).items == ()


PROMPTS: list[tuple[Any, str]] = [
    (None, "parts"),
    (5, "parts"),
    (b"x", "parts"),
    ((), "parts"),
    ("\ud800", "parts[0].text"),
    (["x"], "parts[0]"),
    ((TextInput(5),), "parts[0].text"),  # type: ignore[arg-type]
    ((TextInput("a"), ContextInput("Bad Tag", "x")), "parts[1].tag"),
    ((TextPart(part_id="p", sequence=1, text="x"),), "parts[0].part_id"),
    ((DataInput("t", {"a": float("nan")}),), "parts[0].data.a"),
    ((DataInput("t", object()),), "parts"),
    ((FileInput("data:,x", ""),), "parts[0].media_type"),
    ((TextInput("x"),) * 257, "parts"),
]


@pytest.mark.parametrize("verb", ["prompt", "instruct"])
@pytest.mark.parametrize(("content", "field"), PROMPTS)
async def test_W9_nothing_is_said_that_no_request_could_say(
    verb: str, content: Any, field: str, autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a")) as w:
        await w.session()
        async with w.registry.open("s1") as session:
            if verb == "instruct" and isinstance(content, str):
                field = "parts[0].context"
            with pytest.raises(RequestError) as refused:
                await getattr(session, verb)(content)
            assert (refused.value.code, refused.value.field) == ("invalid_argument", field)
            assert await w.stored(include_internal=True) == []
            assert (await (await session.prompt("still here?")).finished()).status == "completed"


async def test_W9_other_verbs_are_held_to_their_requests(autojump_clock: object, world: MakeWorld) -> None:
    async with world() as w:
        await w.session()
        verbs: list[tuple[Callable[[], Awaitable[Any]], str]] = [
            (lambda: w.registry.update("s1", title=5), "title"),
            (lambda: w.registry.update("s1", config=ConfigChange(model="")), "config.model"),
            (lambda: w.registry.fork("s1", new_session_id="a b"), "new_session_id"),
            (lambda: w.registry.fork("s1", through_message_id=5), "through_message_id"),
            (lambda: w.registry.respond("s1", "i", revision="1", response={}), "revision"),
            (lambda: w.registry.respond("s1", "i", revision=1, response={"reason": "\ud800"}), "response.reason"),
            (lambda: w.registry.prompt("s1", parts=(TextInput("x"),), client_request_id=""), "client_request_id"),
        ]
        for call, field in verbs:
            with pytest.raises(RequestError) as refused:
                await call()
            assert (refused.value.code, refused.value.field) == ("invalid_argument", field)


async def test_W9_what_a_request_could_say_may_be_given_in_pythons_words(
    autojump_clock: object, world: MakeWorld
) -> None:
    async with world(text_answer("a")) as w:
        day = datetime(2024, 2, 29, tzinfo=UTC)
        await w.registry.create(session_id="s1", metadata={"day": day, "pair": (1, 2)})
        parts: list[PartInput] = [DataInput("t", {"day": day, "both": ("a", ["b"])})]
        async with w.registry.open("s1") as session:
            await (await session.prompt(parts)).finished()
        (part,) = (await w.stored())[0]["parts"]
        assert part["data"] == {"day": "2024-02-29T00:00:00Z", "both": ["a", ["b"]]}
        stored = (await w.store.session("s1")).metadata
        assert stored.text == b'{"day":"2024-02-29T00:00:00Z","pair":[1,2]}'
