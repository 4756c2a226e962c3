"""A long Session on a real server: named, compacted and forked, with history as it was (C2, L3, M5)."""

from pathlib import Path

import apsw
import pytest

from harness import Map, Refused, WireClient, server_process, texts, wire_client


async def exchange(client: WireClient, text: str, request_id: str) -> Map:
    receipt = await client.request("prompt", session_id="s1", text=text, client_request_id=request_id)
    return await client.turn_finished(receipt["turn_id"])


def is_compacted(message: Map) -> bool:
    return any(part.get("action_type") == "context-compaction" for part in message["parts"])


async def test_C2_L3_M5_a_long_session_is_named_compacted_and_forked(tmp_path: Path) -> None:
    data = tmp_path / "t.db"
    async with server_process(data, "--context-window-tokens", "1000") as server, wire_client(server.url) as client:
        await client.request("session.create", session_id="s1")
        view = await client.subscribe("s1")
        await exchange(client, "/echo Remember the milk", "r1")
        await client.until(lambda: view.session is not None and view.session.get("title") == "Echo remember the milk")
        await exchange(client, "/text 1000", "r2")
        before = (await client.request("messages", session_id="s1"))["items"]
        await exchange(client, "/usage 900", "r3")
        await client.until(lambda: any(map(is_compacted, view.messages)))
        page = (await client.request("messages", session_id="s1"))["items"]
        assert page[:4] == before
        assert page == view.messages
        (action,) = page[-1]["parts"]
        assert (action["state"], action["data"]["messages"]) == ("completed", action["data"]["through_sequence"])

        forked = await client.request(
            "session.fork", session_id="s1", through_message_id=page[1]["message_id"], new_session_id="f1"
        )
        origin = {"session_id": "s1", "message_id": page[1]["message_id"]}
        assert (forked["session"]["origin"], forked["session"]["title"]) == (origin, "Echo remember the milk")
        copies = (await client.request("messages", session_id="f1"))["items"]
        assert [texts(copy) for copy in copies] == [texts(message) for message in page[:2]]
        assert [copy["origin"]["message_id"] for copy in copies] == [message["message_id"] for message in page[:2]]
        with pytest.raises(Refused) as refusal:
            await client.request("session.fork", session_id="s1", through_message_id=copies[0]["message_id"])
        assert (refusal.value.code, refusal.value.frame["field"]) == ("not_found", "through_message_id")
        await server.kill()

    # What was derived is in a table of its own, and a new process goes on with it.
    connection = apsw.Connection(str(data), flags=apsw.SQLITE_OPEN_READONLY)
    rows = {str(row[0]): str(row[1]) for row in connection.execute("SELECT session_id, text FROM context_summaries")}
    connection.close()
    assert rows["s1"].startswith("The user spoke")
    assert set(rows) <= {"s1", "f1"}, "a fork takes along what tells of its own part only"
    async with server_process(data) as server, wire_client(server.url) as client:
        await client.subscribe("s1")
        assert (await exchange(client, "hello again", "r4"))["status"] == "completed"
        assert (await client.request("messages", session_id="s1"))["items"][: len(page)] == page
