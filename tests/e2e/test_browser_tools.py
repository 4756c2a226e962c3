"""Tools, approvals and questions in real tabs: what one tab answers, every other one sees (A1-A5, P7)."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trio

from browser_driver import Browser, Tab
from browser_pages import IDLE, all_show_what_the_server_holds, session_of
from harness import Map, Refused, ServerProcess, WireClient, server_process, wire_client
from model_dialects import KEY, OpenAI, Script, saying
from model_service import Answer, Exchange, Service

pytestmark = pytest.mark.browser

WRITE = '/tool write_file {"path": "hello.txt", "text": "one\\ntwo\\n"}'
APPROVE = ".approval button.primary"
DENY = ".approval button[type=submit]"
PHONE = {"viewport": {"width": 390, "height": 740}, "hasTouch": True}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
async def server(data: Path, workspace: Path) -> AsyncIterator[ServerProcess]:
    async with server_process(data, "--workspace", str(workspace), "--tick-ms", "500") as process:
        yield process


async def two_tabs(chromium: Browser, server: ServerProcess, prompt: str) -> tuple[Tab, Tab, str]:
    """A tab that says `prompt` in a new Session, a phone that has the Session open too, and the Session's id."""
    page = f"http://{server.address}/"
    first = await chromium.open("first", page)
    await first.say(prompt)
    session_id = await session_of(first)
    second = await chromium.open("second", f"{page}#/s/{session_id}", **PHONE)
    return first, second, session_id


async def the_pending(client: WireClient, session_id: str) -> Map:
    item: Map = (await client.request("interactions", session_id=session_id))["items"][0]
    return item


async def test_A1_what_one_tab_approves_the_other_follows_and_the_tool_runs_once(
    server: ServerProcess, workspace: Path, chromium: Browser
) -> None:
    first, second, session_id = await two_tabs(chromium, server, WRITE)
    for tab in (first, second):
        await tab.until(APPROVE)
        assert "hello.txt" in await tab.text(".approval")
        await tab.until('[data-tool-state="waiting-user"]', 1)
    await second.click(APPROVE)
    for tab in (first, second):
        await tab.wait(IDLE)
        await tab.until('[data-interaction-status="resolved"]', 1)
        await tab.until('[data-tool-state="completed"]', 1)
        await tab.until(".changes")
        assert await tab.count(APPROVE) == 0
    assert (workspace / "hello.txt").read_text() == "one\ntwo\n"
    await second.reload()
    await second.until(".changes", 1)
    for tab in (first, second):
        assert "1 file changed" in await tab.text(".changes > summary")
    await all_show_what_the_server_holds(server, session_id, first, second)
    assert await chromium.faults() == []


async def make_deaf(tab: Tab, session_id: str) -> None:
    """Cuts the page off from what happens in the Session, not from the answers to its own requests."""
    await tab.evaluate(f"window.turnwire.session({json.dumps(session_id)}).receive = () => {{}}")


async def test_A1_two_tabs_answer_in_the_same_instant_and_the_loser_is_told(
    server: ServerProcess, chromium: Browser
) -> None:
    """Neither hears of the other before it has pressed: one says yes, the other no, and one of them counts."""
    first, second, session_id = await two_tabs(chromium, server, WRITE)
    for tab in (first, second):
        await tab.until(APPROVE)
        await make_deaf(tab, session_id)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.evaluate, f"document.querySelector('{APPROVE}').click()")
        nursery.start_soon(second.evaluate, f"document.querySelector('{DENY}').click()")
    for tab in (first, second):
        await tab.wait("window.turnwire.getSnapshot().unsent.length === 0")
    told = [await tab.count(".interaction .notice.error") for tab in (first, second)]
    assert sorted(told) == [0, 1]
    for tab in (first, second):
        await tab.reload()
        await tab.wait(IDLE)
    await all_show_what_the_server_holds(server, session_id, first, second)
    expected = "Approved by local" if told == [0, 1] else "Denied by local"
    assert [await tab.text(".outcome") for tab in (first, second)] == [expected, expected]


async def test_A2_a_late_answer_changes_nothing_and_the_page_says_who_was_first(
    server: ServerProcess, chromium: Browser
) -> None:
    first, second, session_id = await two_tabs(chromium, server, WRITE)
    await first.until(APPROVE)
    await second.until(DENY)
    await make_deaf(first, session_id)
    await second.fill(".approval input", "not this file")
    await second.click(DENY)
    await second.until('[data-interaction-status="denied"]')
    await first.click(APPROVE)
    await first.until(".interaction .notice.error")
    assert "denied by local already" in await first.text(".interaction .notice.error")
    assert "not this file" in await second.text(".outcome")
    await first.reload()
    await first.wait(IDLE)
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_A3_tools_run_unasked_once_that_is_set_and_every_tab_sees_it(
    server: ServerProcess, workspace: Path, chromium: Browser
) -> None:
    first, second, session_id = await two_tabs(chromium, server, WRITE)
    for tab in (first, second):
        await tab.until(APPROVE)
    await first.click(".bar .menu > button")
    await first.click(".menu-items [aria-pressed]")
    for tab in (first, second):
        await tab.until('[data-action-state="completed"]', 1)
        assert await tab.count(APPROVE) == 1, "what was asked before stays to be answered"
        await tab.wait("document.querySelector('.activity').textContent.includes('Tools run without asking')")
    await first.click(APPROVE)
    for tab in (first, second):
        await tab.wait(IDLE)
    await second.say('/tool write_file {"path": "more.txt", "text": "x"}')
    for tab in (first, second):
        await tab.until('[data-tool-state="completed"]', 2)
        await tab.wait(IDLE)
    assert (workspace / "more.txt").read_text() == "x"
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_A4_a_card_that_waits_is_there_after_a_reload_and_one_decided_elsewhere_is_not(
    server: ServerProcess, chromium: Browser
) -> None:
    first, second, session_id = await two_tabs(chromium, server, "/ask")
    for tab in (first, second):
        await tab.until(".questions")
    await first.reload()
    await first.until(".questions")
    await second.command("offline", offline=True)
    await second.until('[data-connection="reconnecting"]')
    await second.until(".questions button:disabled")
    await first.click(".questions input[value=green]")
    await first.click(".questions button")
    await first.wait(IDLE)
    assert "Green" in await first.text(".interaction .fields")
    assert await second.count(".questions") == 1
    await second.command("offline", offline=False)
    await second.wait(IDLE)
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_A5_an_answer_to_what_has_changed_since_is_refused(server: ServerProcess, chromium: Browser) -> None:
    """The page sends back the revision of the card it showed, which is the one that the server holds."""
    first, _, session_id = await two_tabs(chromium, server, WRITE)
    await first.until(APPROVE)
    async with wire_client(server.url) as client:
        pending = await the_pending(client, session_id)
        with pytest.raises(Refused, match="conflict"):
            await client.request(
                "interaction.respond",
                session_id=session_id,
                interaction_id=pending["interaction_id"],
                revision=pending["revision"] - 1,
                response={"decision": "approved"},
            )
    await first.click(APPROVE)
    await first.wait(IDLE)
    await all_show_what_the_server_holds(server, session_id, first)


async def test_Q5_stop_takes_the_waiting_card_away_in_every_tab(server: ServerProcess, chromium: Browser) -> None:
    first, second, session_id = await two_tabs(chromium, server, WRITE)
    for tab in (first, second):
        await tab.until(APPROVE)
    await second.stop()
    for tab in (first, second):
        await tab.until('[data-interaction-status="cancelled"]')
        await tab.until('[data-code="stopped"]')
        assert await tab.count(APPROVE) == 0
    await all_show_what_the_server_holds(server, session_id, first, second)


async def test_P5_a_tool_card_moves_through_its_states_with_its_input_as_it_streams(
    data: Path, workspace: Path, service: Service, chromium: Browser
) -> None:
    """Z2: 200 kB of input leave the page usable. The model waits in mid-input for what the page shows."""
    told = ("--model", "openai:told", "--base-url", service.url, "--titles", "off", "--workspace", str(workspace))
    async with server_process(data, *told, environment={"OPENAI_API_KEY": KEY}) as server:
        tab = await chromium.open("tab", f"http://{server.address}/")

        async def tail_ends_with(text: str) -> None:
            await tab.wait(f"document.querySelector('{TAIL}')?.textContent.endsWith({json.dumps(text)})")
            assert len(await tab.text(TAIL)) < 3_000, "only the end of what streams in is shown"

        long = " ".join(f"word{number}" for number in range(20_000))
        service.will(
            in_two_halves("c1", "calculator", '{"expression": "2 *', ' 3"}', tail_ends_with),
            OPENAI.answer(saying("six")),
            in_two_halves("c2", "calculator", '{"expression": "2 *', "", tail_ends_with),
            OPENAI.answer(saying("that was no JSON")),
            in_two_halves("c3", "write_file", f'{{"path": "a.txt", "text": "{long}', '"}', tail_ends_with),
            OPENAI.answer(saying("written")),
        )
        await tab.say("calculate")
        await tab.until('[data-tool-state="completed"]', 1)
        await tab.wait(IDLE)
        await tab.say("wrongly")
        await tab.until('[data-tool-state="failed"]', 1)
        await tab.wait(IDLE)
        await tab.say("write")
        await tab.until(APPROVE)
        assert len(await tab.text(".approval")) < 20_000
        await tab.click(APPROVE)
        await tab.until('[data-tool-state="completed"]', 2)
        await tab.wait(IDLE)
        assert (workspace / "a.txt").read_text() == long
        await all_show_what_the_server_holds(server, await session_of(tab), tab)


TAIL = '[data-tool-state="input-streaming"] .tail'
OPENAI = OpenAI()


def in_two_halves(
    tool_call_id: str, tool_name: str, half: str, rest: str, shown: Callable[[str], Awaitable[None]]
) -> Answer:
    """A call whose input goes on only when `shown(half)` has returned."""

    def begin(script: Script) -> None:
        script.call(0, tool_call_id, tool_name)
        script.input(0, half)

    def end(script: Script) -> None:
        script.input(0, rest)
        script.finish("tool_calls")

    async def say(exchange: Exchange) -> None:
        await exchange.start()
        await OPENAI.tell(exchange, begin)
        await shown(half[-100:])
        await OPENAI.tell(exchange, end, begin=False, end=True)
        await exchange.finish()

    return say
