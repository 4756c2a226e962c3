"""The chat page in real Chromium tabs, on a real server: what people see is what the server holds."""

from pathlib import Path
from typing import Any

import pytest
import trio

from browser_driver import WAIT_MS, Browser, Tab
from browser_pages import AGENTS, DONE, ENDLESS, more_than, session_of, stored
from harness import Map, ServerProcess, server_process, texts, wire_client
from turnwire.conformance.processes import free_port

pytestmark = pytest.mark.browser

WORDS = 100_000
ANSWER = "".join(f"w{n} " for n in range(1, WORDS + 1))
assert f"/stream {WORDS} 5" == ENDLESS


async def newest_answer(tab: Tab) -> str:
    """The source of the newest answer's text, as the page has it; what is shown must be the same words."""
    messages = [message for message in await tab.messages() if message["role"] == "agent"]
    if not messages:
        return ""
    text = "".join(part["text"] for part in messages[-1]["texts"])
    shown = "".join(part["shown"] for part in messages[-1]["texts"])
    assert shown.split() == text.split()
    return text


async def in_the_page(tab: Tab) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """Every Message of the page: id, role, and its text Parts."""
    return [
        (message["message_id"], message["role"], [(part["part_id"], part["text"]) for part in message["texts"]])
        for message in await tab.messages()
    ]


def as_page(messages: list[Map]) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """The server's Messages in the form of `in_the_page`."""
    return [
        (
            message["message_id"],
            message["role"],
            [(part["part_id"], part["text"]) for part in message["parts"] if part["type"] == "text"],
        )
        for message in messages
    ]


async def test_J2_two_tabs_show_the_same_answer_while_it_streams_and_after_a_reload(
    server: ServerProcess, chromium: Browser
) -> None:
    """The second tab opens in mid-answer and is reloaded in mid-answer; at every sample the shorter is a prefix."""
    page = f"http://{server.address}/"
    first = await chromium.open("first", page)
    await first.say(ENDLESS)
    session_id = await session_of(first)
    await first.wait(more_than(1_000))

    async def samples_differ(tab: Tab) -> None:
        """Looks on until the second tab has been seen at several lengths."""
        lengths: set[int] = set()
        while len(lengths) < 6:
            one, two = await newest_answer(first), await newest_answer(tab)
            assert one.startswith(two) or two.startswith(one)
            assert ANSWER.startswith(one)
            assert ANSWER.startswith(two)
            lengths.add(len(two))

    second = await chromium.open("second", f"{page}#/s/{session_id}")
    await second.wait(more_than(0))
    with trio.fail_after(WAIT_MS / 1000):
        await samples_differ(second)
        seen = len(await newest_answer(second))
        await second.reload()
        await second.wait(more_than(seen))
        await samples_differ(second)
    await first.stop()
    for tab in (first, second):
        await tab.wait(DONE)

    messages = await stored(server, session_id)
    assert ANSWER.startswith(texts(messages[-1]))
    assert await in_the_page(first) == await in_the_page(second) == as_page(messages)
    assert await newest_answer(first) == texts(messages[-1])
    assert await chromium.faults() == []


async def test_K1_after_kill_9_in_mid_answer_both_tabs_show_what_the_file_holds(data: Path, chromium: Browser) -> None:
    """E1, E2, K3, S7: never reloaded by hand; the Message is done with an error Part, and the next prompt works."""
    port = free_port()
    async with server_process(data, "--tick-ms", "500", port=port) as server:
        page = f"http://{server.address}/"
        first = await chromium.open("first", page)
        await first.say(ENDLESS)
        session_id = await session_of(first)
        second = await chromium.open("second", f"{page}#/s/{session_id}")
        for tab in (first, second):
            await tab.wait(more_than(2_000))
        await server.kill()
    async with server_process(data, "--tick-ms", "500", port=port) as server:
        for tab in (first, second):
            await tab.wait(DONE)
        messages = await stored(server, session_id)
        user, agent = messages
        assert agent["state"] == "done"
        assert agent["turn_id"] == user["turn_id"]
        assert [part["type"] for part in agent["parts"]] == ["text", "error"]
        assert agent["parts"][-1]["code"] == "runtime_interrupted"
        for tab in (first, second):
            assert await in_the_page(tab) == as_page(messages)
            assert agent["parts"][-1]["message"] in (await tab.messages())[-1]["all"]
        await second.say("/echo and on it goes")
        for tab in (first, second):
            await tab.wait(f"{AGENTS} === 2 && {DONE}")
        messages = await stored(server, session_id)
        assert texts(messages[-1]).strip() == "and on it goes"
        for tab in (first, second):
            assert await in_the_page(tab) == as_page(messages)


async def test_T3_stop_in_one_tab_ends_the_turn_in_both(server: ServerProcess, chromium: Browser) -> None:
    page = f"http://{server.address}/"
    first = await chromium.open("first", page)
    await first.say(ENDLESS)
    session_id = await session_of(first)
    second = await chromium.open("second", f"{page}#/s/{session_id}")
    await second.wait(more_than(200))
    await second.stop()
    for tab in (first, second):
        await tab.wait(DONE)
    messages = await stored(server, session_id)
    assert messages[-1]["parts"][-1]["code"] == "stopped"
    assert await in_the_page(first) == await in_the_page(second) == as_page(messages)


async def test_J5_older_history_loads_on_scroll_and_every_message_comes_once(
    server: ServerProcess, chromium: Browser
) -> None:
    async with wire_client(server.url) as client:
        session_id = (await client.request("session.create"))["session"]["session_id"]
        await client.subscribe(session_id)
        for number in range(60):
            receipt = await client.request(
                "prompt", session_id=session_id, text=f"/echo number {number}", client_request_id=f"r{number}"
            )
            await client.turn_finished(receipt["turn_id"])
    tab = await chromium.open("tab", f"http://{server.address}/#/s/{session_id}")
    await tab.wait("document.querySelectorAll('[data-message-id]').length >= 50")
    while await tab.evaluate("document.querySelectorAll('[data-message-id]').length") < 120:
        seen = await tab.evaluate("document.querySelectorAll('[data-message-id]').length")
        await tab.evaluate(SCROLL_UP)
        await tab.wait(f"document.querySelectorAll('[data-message-id]').length > {seen}")
    assert await in_the_page(tab) == as_page(await stored(server, session_id))


SCROLL_UP = """
(() => {
  for (let node = document.querySelector('[data-message-id]'); node; node = node.parentElement) {
    if (node.scrollHeight > node.clientHeight + 1 && node.scrollTop > 0) { node.scrollTop = 0; return; }
  }
})()
"""


async def test_X5_hostile_model_text_neither_runs_nor_loads(server: ServerProcess, chromium: Browser) -> None:
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.evaluate("performance.setResourceTimingBufferSize(1000)")
    await tab.say("/markdown")
    await tab.wait(DONE)
    assert await tab.evaluate("document.title") != "hacked"
    assert (
        await tab.evaluate("document.querySelectorAll('[data-message-id] script, [data-message-id] img').length") == 0
    )
    loaded: list[Any] = await tab.evaluate("performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert all(str(name).startswith(f"http://{server.address}/") for name in loaded)
    assert await chromium.faults() == []
