"""The page at a server with a key: it asks for a token, says why, and loses nothing over it (R6, X2, X3)."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from browser_driver import Browser, Tab
from browser_pages import ENDLESS, IDLE, SHOWN, more_than, serious_faults, session_of
from harness import ServerProcess, server_process, wire_client
from turnwire.gateway.tokens import CLOCK_SKEW_SECONDS, create_token, read_key

pytestmark = pytest.mark.browser

SECRET = "a secret that nobody can guess, really"
CONNECTED = '[data-connection="connected"]'
FORM = "form.token"
HOUR_SECONDS = 3_600.0
LEFT_SECONDS = 4.0
"""A token that is good for no longer can still be used at once."""


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "turnwire.key"
    path.write_text(SECRET)
    return path


@pytest.fixture
async def server(key: Path, data: Path) -> AsyncIterator[ServerProcess]:
    async with server_process(data, "--key-file", str(key)) as process:
        yield process


def token(key: Path, subject: str, lifetime_s: float = HOUR_SECONDS, *, age_s: float = 0.0) -> str:
    """Made `age_s` seconds ago, and good for `lifetime_s` from then and the ten more by which clocks may differ."""
    return create_token(read_key(key), subject=subject, lifetime_s=lifetime_s, now=time.time() - age_s)


async def give(tab: Tab, text: str) -> None:
    await tab.fill("#token", text)
    await tab.press("#token", "Enter")


async def test_X2_a_token_is_asked_for_once_a_tab_and_given_back_on_request(
    server: ServerProcess, key: Path, chromium: Browser
) -> None:
    page = f"http://{server.address}/"
    tab = await chromium.open("tab", page)
    await tab.until(FORM)
    assert "asks for an access token" in await tab.text(FORM)
    assert await tab.count(".token-fault") == 0
    await tab.fill("textarea", "/echo what was typed before")
    await give(tab, "no token at all")
    await tab.until(".token-fault")
    assert "this is no token" in await tab.text(".token-fault")
    assert await serious_faults(tab, "token") == []
    await give(tab, token(key, "ada"))
    await tab.until(CONNECTED)
    await tab.until(FORM, 0)
    assert await tab.text(".account-name") == "ada"
    assert await serious_faults(tab, "account") == []
    await tab.press("textarea", "Enter")
    await tab.wait(f"document.querySelector('[data-role=\"agent\"]') !== null && {IDLE}")
    session_id = await session_of(tab)
    await tab.reload()
    await tab.until(f"[data-session-id={json.dumps(session_id)}]")
    other = await chromium.open("other", page)
    await other.until(FORM)
    await tab.click(".account button")
    await tab.until(FORM)
    await tab.wait("document.querySelectorAll('[data-message-id]').length === 0")
    assert await tab.evaluate("JSON.stringify([{ ...sessionStorage }, { ...localStorage }]).includes('eyJ')") is False


async def test_X2_a_token_that_is_kept_in_the_browser_is_good_for_all_tabs(
    server: ServerProcess, key: Path, chromium: Browser
) -> None:
    page = f"http://{server.address}/"
    first = await chromium.open("first", page)
    second = await chromium.open("second", page)
    for tab in (first, second):
        await tab.until(FORM)
    await first.click(".token-keep input")
    await give(first, token(key, "ada"))
    third = await chromium.open("third", page)
    for tab in (first, second, third):
        await tab.until(CONNECTED)
    await second.click(".account button")
    for tab in (first, second, third):
        await tab.until(FORM)


async def test_X3_a_token_that_expires_is_asked_for_in_time_and_nothing_stands_still(
    server: ServerProcess, key: Path, chromium: Browser
) -> None:
    """R6: the form is there before the end, and the next token is taken on the connection that stands."""
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.until(FORM)
    await give(tab, token(key, "ada", 6))
    await tab.until(CONNECTED)
    await tab.evaluate(WATCH_THE_PILL)
    await tab.say(ENDLESS)
    await tab.until(FORM)
    assert "expires soon" in await tab.text(FORM)
    await give(tab, token(key, "ada"))
    await tab.until(FORM, 0)
    [answer] = [message for message in await tab.messages() if message["role"] == "agent"]
    await tab.wait(more_than(len(answer["texts"][0]["text"])))
    await tab.stop()
    await tab.wait(IDLE)
    assert await tab.evaluate("window.states") == []


WATCH_THE_PILL = """
(() => {
  window.states = [];
  const pill = document.querySelector('.bar .pill');
  new MutationObserver(() => states.push(pill.dataset.connection))
    .observe(pill, { attributes: true, attributeFilter: ['data-connection'] });
})()
"""


async def test_X3_after_the_end_of_a_token_the_next_one_continues_the_conversation(
    server: ServerProcess, key: Path, chromium: Browser
) -> None:
    """The answer goes on at the server (T4); the draft and what was sent meanwhile are still there, and go out once."""
    tab = await chromium.open("tab", f"http://{server.address}/")
    await tab.until(FORM)
    await give(tab, token(key, "ada", LEFT_SECONDS, age_s=CLOCK_SKEW_SECONDS))
    await tab.until(CONNECTED)
    await tab.say("/stream 600 10")
    session_id = await session_of(tab)
    await tab.wait(more_than(100))
    await tab.until(".token-fault")
    assert "the token has expired" in await tab.text(".token-fault")
    await tab.say("/echo said without a token")
    await tab.until('[data-unsent="waiting"]')
    await tab.fill("textarea", "and a draft")
    await give(tab, "wrong")
    await tab.wait("document.querySelector('.token-fault')?.textContent.includes('this is no token')")
    await give(tab, token(key, "ada"))
    await tab.wait(f"document.querySelectorAll('[data-role=\"agent\"]').length === 2 && {IDLE}")
    assert await tab.evaluate("document.querySelector('textarea').value") == "and a draft"
    async with wire_client(server.url, hello=False) as client:
        await client.request("hello", token=token(key, "ada"))
        stored = (await client.request("messages", session_id=session_id))["items"]
    assert [message["role"] for message in stored] == ["user", "agent", "user", "agent"]
    assert await tab.evaluate(f"{SHOWN}.map(([message_id]) => message_id)") == [item["message_id"] for item in stored]
