"""What the page does with Sessions and prompts: steer, queue, retry, fork, rename, archive, search, unread (T1, M6)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from browser_driver import Browser
from browser_pages import (
    AGENTS,
    ENDLESS,
    IDLE,
    LOOK_AGAIN,
    all_show_what_the_server_holds,
    more_than,
    serious_faults,
    session_of,
    stored,
)
from harness import ServerProcess, server_process

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 390, "height": 740}, "hasTouch": True}
MENU = ".bar .menu > button"


@pytest.fixture
async def server(data: Path, tmp_path: Path) -> AsyncIterator[ServerProcess]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    async with server_process(data, "--workspace", str(workspace)) as process:
        yield process


async def test_T1_a_prompt_in_mid_answer_waits_for_its_turn_or_joins_as_the_user_says(
    server: ServerProcess, chromium: Browser
) -> None:
    """The answer that runs meanwhile waits for the user, so it goes on when the test says so."""
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.say("/ask")
    await tab.until(".questions")
    session_id = await session_of(tab)
    await tab.until(".delivery")
    await tab.say("/echo afterwards")
    await tab.wait("document.body.textContent.includes('Waits for its turn')")
    await tab.evaluate("document.querySelector('.delivery input[value=steer]').click()")
    await tab.say("at once")
    await tab.wait("document.body.textContent.includes('Joined the running answer')")
    await tab.click(".questions input[value=green]")
    await tab.click(".questions button")
    await tab.wait(f"{IDLE} && !document.body.textContent.includes('Waits for its turn')")
    messages = await stored(server, session_id)
    prompts = [message for message in messages if message["role"] == "user"]
    assert prompts[0]["turn_id"] == prompts[2]["turn_id"] != prompts[1]["turn_id"]
    await all_show_what_the_server_holds(server, session_id, tab)


async def test_T3_a_prompt_that_stop_has_cancelled_is_shown_as_not_answered(
    server: ServerProcess, chromium: Browser
) -> None:
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.say(ENDLESS)
    await tab.until(".button.stop")
    await tab.say("/echo never")
    await tab.wait("document.body.textContent.includes('Waits for its turn')")
    await tab.press("textarea", "Escape")
    await tab.wait("document.querySelector('.button.stop') === null")
    await tab.wait("document.querySelector('.message.user .meta')?.textContent === 'Not answered'")
    await all_show_what_the_server_holds(server, await session_of(tab), tab)


async def test_K6_an_error_offers_to_try_again_and_a_warning_counts_down(
    server: ServerProcess, chromium: Browser
) -> None:
    """T5: the warning says why, which attempt it was and when the next one comes. It stands until the model speaks.

    In a Session that is new: its first prompt is one that fails.
    """
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.say("/fail rate_limited 1\n/silence 3600")
    warning = """document.querySelector('[data-warning="rate_limited"]')"""
    await tab.wait(f"{warning}?.textContent.endsWith('Attempt 1 of 4 failed. Trying again…')")
    await tab.stop()
    await tab.wait(f"{IDLE} && {warning} === null && {AGENTS} === 1")
    await tab.say("/fail rate_limited 2\n/stream 3")
    await tab.wait(f"{IDLE} && {warning} === null && {AGENTS} === 2")
    await tab.say("/fail invalid_request")
    await tab.until('[data-code="invalid_request"] button')
    await tab.wait(IDLE)
    await tab.click('[data-code="invalid_request"] button')
    await tab.until('[data-code="invalid_request"]', 2)
    await tab.wait(IDLE)
    assert await tab.count('[data-code="invalid_request"] button') == 1, "only the newest can be tried again"
    await all_show_what_the_server_holds(server, await session_of(tab), tab)


async def test_a_session_is_renamed_forked_searched_for_and_archived(server: ServerProcess, chromium: Browser) -> None:
    page = f"http://{server.address}/"
    tab = await chromium.open("tab", page)
    await tab.say("/echo alpha")
    session_id = await session_of(tab)
    other = await chromium.open("other", f"{page}#/s/{session_id}")
    await tab.wait(IDLE)
    await tab.click(MENU)
    await tab.click(".menu-items button")
    await tab.fill("dialog input", "The first of all")
    await tab.press("dialog input", "Enter")
    for each in (tab, other):
        await each.wait("document.querySelector('h1').textContent === 'The first of all'")
        await each.wait("document.title.includes('The first of all')")

    await tab.evaluate("document.querySelector('[data-role=\"agent\"] .message-actions button:last-of-type').click()")
    await tab.wait(f"location.hash !== {json.dumps(f'#/s/{session_id}')}")
    await tab.until('.messages[data-status="live"] [data-role="agent"]')
    forked = await session_of(tab)
    await all_show_what_the_server_holds(server, forked, tab)
    await tab.say("/echo only here")
    await tab.wait(f"{IDLE} && {AGENTS} === 2")
    assert len(await stored(server, session_id)) == 3, "the prompt, its answer and the record of the renaming"

    await tab.until(".session", 2)
    await tab.fill(".search", "only HERE")
    await tab.until(".session", 1)
    await tab.fill(".search", "")
    await tab.until(".session", 2)
    third = await chromium.open("third", f"{page}#/s/{forked}")
    await third.wait(f"{IDLE} && {AGENTS} === 2 && {ARCHIVED} === false")
    await tab.click(MENU)
    await tab.click(".menu-items button:nth-of-type(3)")
    await tab.until(".start")
    await tab.until(".session", 1)
    await third.evaluate(LOOK_AGAIN)  # no Mutation has told the third tab
    await third.wait(f"{ARCHIVED} === true")
    await third.until(".session", 1)
    await tab.click(".link-button.archived")
    await tab.wait(f"document.querySelector('.session')?.dataset.sessionId === {json.dumps(forked)}")

    # From there it comes back by the menu, or by what is said in it.
    await tab.click(".session")
    await tab.wait(f"{ARCHIVED} === true")
    assert await serious_faults(tab, "archived") == []
    await tab.click(MENU)
    await tab.click(".menu-items button:nth-of-type(3)")
    await tab.wait(f"{ARCHIVED} === false")
    await tab.until(".session", 0)
    await tab.click(".link-button.archived")
    await tab.until(".session", 2)
    await tab.click(MENU)
    await tab.click(".menu-items button:nth-of-type(3)")
    await tab.until(".session", 1)
    await tab.click(".link-button.archived")
    await tab.click(f"[data-session-id={json.dumps(forked)}]")
    await tab.wait(f"{ARCHIVED} === true")
    await tab.say("/echo back again")
    await tab.wait(f"{IDLE} && {AGENTS} === 3 && {ARCHIVED} === false")
    await tab.evaluate(LOOK_AGAIN)
    await tab.until(".session", 0)
    assert await chromium.faults() == []


ARCHIVED = "document.querySelector('.activity')?.textContent.includes('archived')"


async def test_what_came_while_nobody_looked_is_marked(server: ServerProcess, chromium: Browser) -> None:
    """In the list as unread, in the conversation by a line above the first new Message."""
    page = f"http://{server.address}/"
    tab = await chromium.open("tab", page)
    await tab.say("/echo one")
    session_id = await session_of(tab)
    await tab.wait(IDLE)
    await tab.click(".sidebar-head button")
    await tab.until(".start")
    elsewhere = await chromium.open("elsewhere", f"{page}#/s/{session_id}", **PHONE)
    await elsewhere.say("/echo two")
    await elsewhere.wait(f"{IDLE} && {AGENTS} === 2")
    await tab.say("/echo three")
    await tab.until(f'[data-session-id="{session_id}"][data-unread="true"]')
    await tab.click(f'[data-session-id="{session_id}"]')
    await tab.until(".unread-mark", 1)
    await tab.until(f'[data-session-id="{session_id}"][data-unread="false"]')
    await all_show_what_the_server_holds(server, session_id, tab, elsewhere)


async def test_files_go_out_with_a_prompt_and_are_shown_without_asking_anyone(
    server: ServerProcess, chromium: Browser
) -> None:
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.evaluate(PASTE)
    await tab.until(".attachments li", 2)
    await tab.say("look at this")
    await tab.wait("""document.querySelector('[data-role="user"] .image img')?.naturalWidth === 1""")
    assert await tab.evaluate("document.querySelector('a.file').download") == "notes.txt"
    session_id = await session_of(tab)
    await tab.wait(IDLE)
    parts = (await stored(server, session_id))[0]["parts"]
    assert [part["type"] for part in parts] == ["file", "file", "text"]
    assert await chromium.faults() == []


PASTE = """
(() => {
  const gif = Uint8Array.from(atob('R0lGODlhAQABAAAAACwAAAAAAQABAAA='), (letter) => letter.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([gif], 'dot.gif', { type: 'image/gif' }));
  files.items.add(new File(['some notes'], 'notes.txt', { type: 'text/plain' }));
  const field = document.querySelector('textarea');
  field.dispatchEvent(new ClipboardEvent('paste', { clipboardData: files, bubbles: true, cancelable: true }));
})()
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_axe_finds_nothing_serious_in_any_state_of_the_page(
    server: ServerProcess, chromium: Browser, scheme: str
) -> None:
    """Dark on a phone, light on a wide screen: each in all states, one after the other."""
    options = {"colorScheme": scheme, "reducedMotion": "reduce", **(PHONE if scheme == "dark" else {})}
    tab = await chromium.open("tab", f"http://{server.address}/", **options)
    found: list[str] = []

    async def check(state: str) -> None:
        found.extend(await serious_faults(tab, state))

    await check("empty")
    await tab.say(
        '/markdown\n/reason 3\n/tools 2\n/badjson\n/tool write_file {"path": "a.py", "text": "a = 1\\nb = 2\\n"}'
    )
    await tab.wait(more_than(100))
    await check("streaming")
    await tab.until(".approval")
    await check("approval")
    await tab.click(".approval button.primary")
    await tab.wait(IDLE)
    await tab.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    await check("tools and file changes")
    await tab.say("/ask")
    await tab.until(".questions")
    await check("question")
    await tab.stop()
    await tab.wait(IDLE)
    await tab.say("/fail invalid_request")
    await tab.until('[data-code="invalid_request"] button')
    await check("error")
    await tab.click(MENU)
    await check("menu")
    await tab.click(".menu-items .danger")
    await tab.until("dialog[open]")
    await check("dialog")
    await tab.press("dialog", "Escape")
    await tab.command("offline", offline=True)
    await tab.evaluate("window.turnwire.disconnect()")
    await tab.say("unsent")
    await tab.until("[data-unsent]")
    await check("unsent")
    assert found == []


async def test_200_deltas_a_second_are_shown_as_they_come(server: ServerProcess, chromium: Browser) -> None:
    """Z6: frames and long tasks of the page are counted while an answer streams in for two seconds.

    How smooth that was is reported; only a page that showed nothing in between is a fault.
    """
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.evaluate(COUNT)
    await tab.say("/stream 400 5")
    await tab.wait(IDLE)
    tasks, frames, lengths = await tab.evaluate("[counted.tasks, counted.frames, counted.lengths.size]")
    print(f"400 deltas at 200/s: {frames} frames, {len(tasks)} long tasks, the longest {max(tasks, default=0):.0f} ms")
    assert lengths > 5
    await all_show_what_the_server_holds(server, await session_of(tab), tab)


COUNT = """
(() => {
  window.counted = { tasks: [], frames: 0, lengths: new Set() };
  new PerformanceObserver((list) => counted.tasks.push(...list.getEntries().map((entry) => entry.duration)))
    .observe({ type: 'longtask' });
  const tick = () => {
    counted.frames += 1;
    counted.lengths.add(document.querySelector('[data-role="agent"]')?.textContent.length);
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
})()
"""
