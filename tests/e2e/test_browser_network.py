"""The page on bad networks and asleep: at the end every tab shows what the server holds (R1-R10, E1, K8)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from browser_driver import Browser, Tab
from browser_pages import (
    AGENTS,
    DONE,
    ENDLESS,
    IDLE,
    LOOK_AGAIN,
    all_show_what_the_server_holds,
    more_than,
    session_of,
    stored,
)
from harness import ServerProcess, server_process, wire_client
from turnwire.conformance.processes import free_port

pytestmark = pytest.mark.browser

TICKS = ("--tick-ms", "500")
"""Ticks come often, so that a page notices soon that none come."""

PHONE = {"viewport": {"width": 390, "height": 740}, "hasTouch": True}
CONNECTED = '[data-connection="connected"]'
RECONNECTING = '[data-connection="reconnecting"]'
TABS = 7


@pytest.fixture
async def server(data: Path) -> AsyncIterator[ServerProcess]:
    async with server_process(data, *TICKS) as process:
        yield process


async def open_tabs(chromium: Browser, server: ServerProcess, prompt: str, count: int) -> tuple[list[Tab], str]:
    """Tabs on one Session, in which the first has said `prompt`; the second is a phone."""
    page = f"http://{server.address}/"
    first = await chromium.open("tab 1", page)
    await first.say(prompt)
    session_id = await session_of(first)
    tabs = [first]
    for number in range(2, count + 1):
        options: dict[str, Any] = PHONE if number == 2 else {}
        tabs.append(await chromium.open(f"tab {number}", f"{page}#/s/{session_id}", **options))
    return tabs, session_id


async def test_W8_a_restart_in_mid_answer_and_what_was_written_meanwhile_goes_out_once(
    data: Path, chromium: Browser
) -> None:
    port = free_port()
    async with server_process(data, *TICKS, "--grace-seconds", "0", port=port) as server:
        tabs, session_id = await open_tabs(chromium, server, ENDLESS, 3)
        for tab in tabs:
            await tab.wait(more_than(200))
        await server.terminate()
        for tab in tabs:
            await tab.until(RECONNECTING)
        await tabs[1].say("/echo from the phone")
        await tabs[1].until('[data-unsent="waiting"]')
        await tabs[1].wait("document.querySelector('.bar').textContent.includes('1 unsent')")
    async with server_process(data, *TICKS, port=port) as server:
        for tab in tabs:
            await tab.wait(f"{IDLE} && {AGENTS} === 2")
        await tabs[1].until("[data-unsent]", 0)
        assert len(await stored(server, session_id)) == 4
        await all_show_what_the_server_holds(server, session_id, *tabs)


async def test_Z6_seven_tabs_follow_one_answer_through_a_kill_9_and_the_next_one(data: Path, chromium: Browser) -> None:
    port = free_port()
    async with server_process(data, *TICKS, port=port) as server:
        tabs, session_id = await open_tabs(chromium, server, ENDLESS, TABS)
        for tab in tabs:
            await tab.wait(more_than(100))
        await server.kill()
    async with server_process(data, *TICKS, port=port) as server:
        for tab in tabs:
            await tab.wait(DONE)
        await tabs[-1].say("/stream 300 1")
        for tab in tabs:
            await tab.wait(f"{IDLE} && {AGENTS} === 2")
        await all_show_what_the_server_holds(server, session_id, *tabs)


async def test_R7_a_frozen_tab_has_everything_soon_after_it_is_woken(server: ServerProcess, chromium: Browser) -> None:
    (first, second), session_id = await open_tabs(chromium, server, "/echo one", 2)
    await second.wait(IDLE)
    await second.command("cdp", method="Page.setWebLifecycleState", params={"state": "frozen"})
    for number in range(3):
        await first.say(f"/stream 200 1\n/echo {number}")
        await first.wait(f"{IDLE} && {AGENTS} === {number + 2}")
    await second.command("cdp", method="Page.setWebLifecycleState", params={"state": "active"})
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_R7_a_page_from_the_back_forward_cache_is_live_at_once(server: ServerProcess, chromium: Browser) -> None:
    """The very page comes back, with what was typed; what was said meanwhile is in it, and nothing comes twice."""
    (first, second), session_id = await open_tabs(chromium, server, "/stream 5000 5", 2)
    await first.wait(more_than(200))
    await first.fill("textarea", "half a thou")
    await first.evaluate("addEventListener('pageshow', (event) => { window.kept = event.persisted; })")
    await first.command("goto", url=f"http://{server.address}/healthz")
    await second.stop()
    await second.wait(IDLE)
    await second.say("/stream 200 1")
    await second.wait(f"{IDLE} && {AGENTS} === 2")
    await first.command("back")
    await first.wait("window.kept === true")
    await all_show_what_the_server_holds(server, session_id, first, second)
    assert await first.evaluate("document.querySelector('textarea').value") == "half a thou"
    await second.say("/echo and on it goes")
    await first.wait(f"{AGENTS} === 3")
    await first.wait(IDLE)
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_R8_a_tab_that_goes_offline_in_mid_answer_says_so_and_catches_up(
    server: ServerProcess, chromium: Browser
) -> None:
    """T4: the Turn goes on; what is written offline waits, is shown as unsent, and can be discarded."""
    (first, second), session_id = await open_tabs(chromium, server, ENDLESS, 2)
    await second.wait(more_than(100))
    await second.command("offline", offline=True)
    await second.until(RECONNECTING)
    await second.say("/echo kept")
    await second.say("/echo dropped")
    await second.until('[data-unsent="waiting"]', 2)
    await second.wait("document.querySelector('.activity').textContent.includes('out of date')")
    await second.evaluate("[...document.querySelectorAll('[data-unsent] .link-button')].at(-1).click()")
    await second.until("[data-unsent]", 1)
    await first.wait(more_than(len((await first.messages())[-1]["texts"][0]["text"])))
    await first.stop()
    await first.wait(IDLE)
    await second.command("offline", offline=False)
    for tab in (first, second):
        await tab.wait(f"{IDLE} && {AGENTS} === 2")
    assert len(await stored(server, session_id)) == 4
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_R7_a_browser_that_says_offline_is_not_trusted_and_the_connection_is_asked(
    server: ServerProcess, chromium: Browser
) -> None:
    """The event alone, as where the server is on this machine: the connection answers and goes on."""
    (first, _), _ = await open_tabs(chromium, server, "/echo one", 2)
    await first.wait(IDLE)
    await first.evaluate(WATCH_THE_PILL)
    await first.evaluate("dispatchEvent(new Event('offline'))")
    await first.wait("window.states.length === 2")
    assert await first.evaluate("window.states") == ["doubted", "connected"]
    await first.say("/echo two")
    await first.wait(f"{IDLE} && document.querySelectorAll('[data-role=\"agent\"]').length === 2")


WATCH_THE_PILL = """
(() => {
  window.states = [];
  const pill = document.querySelector('.bar .pill');
  new MutationObserver(() => states.push(pill.dataset.connection))
    .observe(pill, { attributes: true, attributeFilter: ['data-connection'] });
})()
"""
"""Keeps every state that the page shows, so that none can pass by unseen."""


async def test_S9_what_was_written_offline_goes_out_once_also_after_a_reload(data: Path, chromium: Browser) -> None:
    """Q3: into a Session that there was, and as the first word of a new one; the draft stays a draft."""
    async with server_process(data, *TICKS) as server:
        (first, second), session_id = await open_tabs(chromium, server, "/echo one", 2)
        await first.wait(IDLE)
        await first.evaluate("window.turnwire.disconnect()")
        await first.say("/echo two")
        await first.until('[data-unsent="waiting"]')
        await first.fill("textarea", "still a draft")
        await first.reload()
        await first.wait(f"{IDLE} && document.querySelectorAll('[data-role=\"agent\"]').length === 2")
        assert await first.evaluate("document.querySelector('textarea').value") == "still a draft"
        await all_show_what_the_server_holds(server, session_id, first, second)
        assert len(await stored(server, session_id)) == 4

        await first.click(".sidebar-head button")
        await first.until(".start")
        await first.evaluate("window.turnwire.disconnect()")
        await first.say("/fail rate_limited 1\n/echo three")
        begun = await session_of(first)
        assert begun != session_id
        await first.until('[data-unsent="waiting"]')
        await first.reload()
        await first.wait(f"document.querySelectorAll('[data-role=\"agent\"]').length === 1 && {IDLE}")
        await all_show_what_the_server_holds(server, begun, first)
        assert len(await stored(server, begun)) == 2
        await second.evaluate(LOOK_AGAIN)
        await second.until(f"[data-session-id={json.dumps(begun)}]")


async def test_R4_a_slow_network_delays_everything_and_loses_nothing(data: Path, chromium: Browser) -> None:
    """50 kB/s with 300 ms of latency: a page built anew with a history of 150 kB, and an answer on top of it.

    Ticks come as rarely as usual: a tick cannot overtake a frame, and this network needs seconds for one.
    """
    async with server_process(data) as server:
        (first, second), session_id = await open_tabs(chromium, server, "/text 150000 4000", 2)
        await first.wait(IDLE)
        await second.command("cdp", method="Network.enable", params={})
        conditions = {"offline": False, "latency": 300, "downloadThroughput": 50_000, "uploadThroughput": 50_000}
        await second.command("cdp", method="Network.emulateNetworkConditions", params=conditions)
        await second.reload()
        await first.say("/stream 200 2")
        for tab in (first, second):
            await tab.wait(f"{IDLE} && {AGENTS} === 2")
        await all_show_what_the_server_holds(server, session_id, first, second)


async def test_R10_a_page_that_disconnects_and_connects_again_is_live(server: ServerProcess, chromium: Browser) -> None:
    (first, second), session_id = await open_tabs(chromium, server, "/echo one", 2)
    await first.wait(IDLE)
    await first.evaluate("window.turnwire.disconnect()")
    await first.until('[data-connection="idle"], [data-connection="closed"]')
    await second.say("/echo two")
    await second.wait(f"{AGENTS} === 2")
    await first.evaluate("window.turnwire.connect(); window.turnwire.disconnect(); window.turnwire.connect()")
    await first.until(CONNECTED)
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_Q3_what_one_tab_deletes_is_gone_in_the_other(server: ServerProcess, chromium: Browser) -> None:
    (first, second), session_id = await open_tabs(chromium, server, ENDLESS, 2)
    await second.wait(more_than(20))
    await first.click(".bar .menu > button")
    await first.click(".menu-items .danger")
    await first.click("dialog .danger")
    await first.until(".start")
    await second.wait("document.querySelector('textarea:disabled')?.placeholder.includes('deleted')")
    await first.until(f"[data-session-id={json.dumps(session_id)}]", 0)
    async with wire_client(server.url) as client:
        assert (await client.request("session.list"))["items"] == []
