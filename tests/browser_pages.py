"""What the browser tests have in common: what a page shows, in the form of what the server holds."""

from typing import Any

import trio

from browser_driver import WAIT_MS, Tab
from harness import Map, ServerProcess, wire_client

ENDLESS = "/stream 100000 5"
"""An answer that outlasts every wait: what a test does in its middle is in its middle, however slow the machine."""

DONE = """
(() => {
  const all = [...document.querySelectorAll('[data-role="agent"]')];
  return all.length > 0 && all.at(-1).dataset.state === 'done';
})()
"""
IDLE = f"document.querySelector('button.stop') === null && {DONE}"
"""No Turn runs any more; true only after an answer."""

AGENTS = "document.querySelectorAll('[data-role=\"agent\"]').length"

SHOWN = """
[...document.querySelectorAll('[data-message-id]')].map((message) => [
  message.dataset.messageId,
  message.dataset.role,
  message.dataset.state,
  Number(message.dataset.revision),
  [...message.querySelectorAll('[data-part-id]')].map((part) => [
    part.dataset.partId,
    part.turnwireText ?? part.dataset.toolState ?? part.dataset.interactionStatus ?? part.dataset.code ?? null,
  ]).sort(),
])
"""
"""Every Message of a page: id, role, state, revision, and of each Part the id and what its type has: text or state."""


LOOK_AGAIN = "document.dispatchEvent(new Event('visibilitychange'))"
"""As if one came back to the tab. Its lists are asked for then, and otherwise from time to time only."""

POLL_SECONDS = 0.02


def more_than(characters: int) -> str:
    """True in the page when the newest answer is longer than this."""
    return f"""
(() => {{
  const parts = [...document.querySelectorAll('[data-role="agent"] [data-part-id]')];
  return (parts.at(-1)?.turnwireText ?? '').length > {characters};
}})()
"""


def as_shown(messages: list[Map]) -> list[list[Any]]:
    """The server's Messages in the form of SHOWN."""
    return [
        [
            message["message_id"],
            message["role"],
            message.get("state", "done"),
            message["revision"],
            sorted([part["part_id"], _essence(part)] for part in message["parts"]),
        ]
        for message in messages
    ]


def _essence(part: Map) -> Any:
    match part["type"]:
        case "text" | "reasoning":
            return part["text"]
        case "tool":
            return part["state"]
        case "interaction":
            return part["status"]
        case "error":
            return part["code"]
    return None


async def stored(server: ServerProcess, session_id: str) -> list[Map]:
    async with wire_client(server.url) as client:
        page = await client.request("messages", session_id=session_id, limit=200)
    items: list[Map] = page["items"]
    return items


async def all_show_what_the_server_holds(server: ServerProcess, session_id: str, *tabs: Tab) -> None:
    """Waits until every tab shows exactly the Messages that are stored, at their revisions. Raises AssertionError."""
    shown: list[Any] = []
    expected: list[Any] = []
    with trio.move_on_after(WAIT_MS / 1000):
        while not expected or any(each != expected for each in shown):
            await trio.sleep(POLL_SECONDS)  # a page gives no sign when it has drawn
            expected = as_shown(await stored(server, session_id))
            shown = [await tab.evaluate(SHOWN) for tab in tabs]
        return
    raise AssertionError(f"the server holds {expected}, and the tabs show {shown}")


async def serious_faults(tab: Tab, state: str) -> list[str]:
    """What axe-core finds that keeps people from using the page, as it is now; `state` is named in it."""
    found = [broken for broken in await tab.command("axe") if broken["impact"] in ("serious", "critical")]
    return [f"{state}: {broken['id']}: {broken['where']}" for broken in found]


async def session_of(tab: Tab) -> str:
    """The Session that the page shows, from its address."""
    await tab.wait("location.hash.startsWith('#/s/')")
    address: str = await tab.evaluate("location.hash")
    return address.removeprefix("#/s/")
