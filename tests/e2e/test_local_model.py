"""A real language model behind a real server: what it says reaches two clients alike, also when it is stopped."""

from pathlib import Path

import pytest

from harness import Map, WireClient, server_process, texts, wire_client
from turnwire_protocol.view import SessionView

pytestmark = pytest.mark.slow


def answer_of(view: SessionView) -> str:
    agents = [message for message in view.messages if message["role"] == "agent"]
    return texts(agents[-1]) if agents else ""


async def settle(author: WireClient, reader: WireClient, turn_id: str) -> Map:
    finish = await author.turn_finished(turn_id)
    assert (await reader.turn_finished(turn_id))["status"] == finish["status"]
    return finish


async def test_T3_J2_a_real_answer_streams_to_two_clients_and_stops_in_the_middle(data: Path, local_model: str) -> None:
    flags = ("--model", "openai:smollm2", "--base-url", local_model)
    async with (
        server_process(data, *flags) as server,
        wire_client(server.url) as author,
        wire_client(server.url, format="msgpack") as reader,
    ):
        session_id = (await author.request("session.create", title="Real"))["session"]["session_id"]
        view = await author.subscribe(session_id)
        receipt = await author.request(
            "prompt",
            session_id=session_id,
            text="Tell me in three sentences what the sea is like.",
            client_request_id="r1",
        )
        await author.until(lambda: len(answer_of(view)) > 20)
        second = await reader.subscribe(session_id)  # joins in mid-answer
        assert (await settle(author, reader, receipt["turn_id"]))["status"] == "completed"
        assert len(answer_of(view).split()) > 5
        assert len([item for item in author.mutations if item["variant"] == "delta"]) > 3

        receipt = await author.request(
            "prompt", session_id=session_id, text="Write a very long story about a dragon.", client_request_id="r2"
        )
        await reader.until(lambda: len(second.messages) == 4 and len(answer_of(second)) > 40)
        stopped = await reader.request("stop", session_id=session_id)
        assert (stopped["stopped"], stopped["turn_id"]) == (True, receipt["turn_id"])
        assert (await settle(author, reader, receipt["turn_id"]))["status"] == "stopped"

        stored = (await author.request("messages", session_id=session_id))["items"]
        assert view.messages == second.messages == stored
        assert [part["type"] for part in stored[3]["parts"]] == ["text", "error"]
        assert len(texts(stored[3])) > 40
        assert author.reloads == reader.reloads == 0
