"""A real browser for tests: `Chromium.tabs()` gives tabs of headless Chromium that do what a person does.

Chromium is started once; each `tabs()` has a profile of its own in it.
"""

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import trio

ROOT = Path(__file__).parent.parent
DRIVER = ROOT / "tests" / "browser" / "driver.mjs"
WAIT_MS = 90_000
"""How long a page may take for what it must show. No test passes or fails by the time that something takes."""

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class BrowserFault(Exception):
    """A command to the browser failed: a script error, or something that never came."""


class Browser:
    """What one test does with the browser. Commands go to the driver, and answers come from it, in lines."""

    def __init__(self, commands: trio.lowlevel.FdStream, answers: trio.lowlevel.FdStream, ids: Iterator[int]) -> None:
        self._commands = commands
        self._lines = answers
        self._ids = ids
        self._answers: dict[int, Any] = {}
        self._arrived: dict[int, trio.Event] = {}
        self._sending = trio.Lock()

    async def read(self) -> None:
        """Takes in answers. Raises BrowserFault when the browser has gone."""
        rest = b""
        async for chunk in self._lines:
            *lines, rest = (rest + bytes(chunk)).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                self._answers[answer["id"]] = answer
                self._arrived.pop(answer["id"]).set()
        raise BrowserFault("the browser has gone")

    async def command(self, command: str, **fields: Any) -> Any:
        """Raises BrowserFault."""
        number = next(self._ids)
        self._arrived[number] = arrived = trio.Event()
        line = json.dumps({"id": number, "command": command, **fields}) + "\n"
        with trio.CancelScope(shield=True):  # half a line would spoil the next one
            async with self._sending:
                await self._commands.send_all(line.encode())
        await arrived.wait()
        answer = self._answers.pop(number)
        if "error" in answer:
            raise BrowserFault(f"{command} {fields}: {answer['error']}")
        return answer["value"]

    async def open(self, name: str, url: str, **options: Any) -> "Tab":
        """A new tab; with options (such as `viewport`, `colorScheme`) in a browser profile of its own."""
        await self.command("open", tab=name, url=url, options=options or None)
        return Tab(self, name)

    async def faults(self) -> list[str]:
        """Errors that any page has thrown or logged."""
        found: list[str] = await self.command("faults")
        return found


class Tab:
    """One tab with the chat page, used as a person would use it."""

    def __init__(self, browser: Browser, name: str) -> None:
        self._browser = browser
        self.name = name

    async def evaluate(self, expression: str) -> Any:
        return await self._browser.command("evaluate", tab=self.name, expression=expression)

    async def wait(self, expression: str) -> None:
        """Until the JavaScript expression is true."""
        await self._browser.command("wait", tab=self.name, expression=expression)

    async def command(self, command: str, **fields: Any) -> Any:
        """Any other command of the driver, for this tab."""
        return await self._browser.command(command, tab=self.name, **fields)

    async def reload(self) -> None:
        await self._browser.command("reload", tab=self.name)

    async def close(self) -> None:
        await self._browser.command("close", tab=self.name)

    async def click(self, selector: str) -> None:
        await self._browser.command("click", tab=self.name, selector=selector)

    async def fill(self, selector: str, text: str) -> None:
        await self._browser.command("fill", tab=self.name, selector=selector, text=text)

    async def press(self, selector: str, key: str) -> None:
        await self._browser.command("press", tab=self.name, selector=selector, key=key)

    async def count(self, selector: str) -> int:
        """How many elements of the page match."""
        found: int = await self.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length")
        return found

    async def until(self, selector: str, count: int | None = None) -> None:
        """Until elements match: so many, or any."""
        length = f"document.querySelectorAll({json.dumps(selector)}).length"
        await self.wait(f"{length} > 0" if count is None else f"{length} === {count}")

    async def text(self, selector: str) -> str:
        """The text of the first element that matches."""
        found: str = await self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")
        return found

    async def screenshot(self, path: Path) -> None:
        await self._browser.command("screenshot", tab=self.name, path=str(path))

    async def say(self, text: str) -> None:
        """Types into the composer and presses Enter."""
        await self.wait("document.querySelector('textarea') !== null && !document.querySelector('textarea').disabled")
        await self._browser.command("fill", tab=self.name, selector="textarea", text=text)
        await self._browser.command("press", tab=self.name, selector="textarea", key="Enter")

    async def stop(self) -> None:
        """Presses the Stop button."""
        await self.click("button.stop")

    async def messages(self) -> list[dict[str, Any]]:
        """Every Message in the page, in order: id, role, state, and the source and shown text of its text Parts."""
        found: list[dict[str, Any]] = await self.evaluate(MESSAGES)
        return found


MESSAGES = """
[...document.querySelectorAll('[data-message-id]')].map((message) => ({
  message_id: message.dataset.messageId,
  role: message.dataset.role,
  state: message.dataset.state ?? null,
  texts: [...message.querySelectorAll('[data-part-id]')]
    .filter((part) => part.turnwireText !== undefined)
    .map((part) => ({ part_id: part.dataset.partId, text: part.turnwireText, shown: part.textContent })),
  all: message.textContent,
}))
"""


PACKAGE = ROOT / "clients" / "js" / "package.json"
"""Where the driver finds playwright-core."""


class Chromium:
    """One headless Chromium for any number of tests, one after the other, each of which takes seconds less so."""

    def __init__(self) -> None:
        assert CHROMIUM is not None, "Chromium is not installed: apt-get install chromium"
        command = ["node", str(DRIVER), str(PACKAGE), CHROMIUM, str(WAIT_MS)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands, self._answers = self._process.stdin, self._process.stdout
        assert json.loads(self._answers.readline()) == {"ready": True}
        self._ids = count(1)

    def close(self) -> None:
        # It ends with its input.
        self._process.communicate(timeout=30)

    @asynccontextmanager
    async def tabs(self) -> AsyncIterator[Browser]:
        """A fresh browser, whose tabs are closed at the end of the block."""
        async with (
            trio.lowlevel.FdStream(os.dup(self._commands.fileno())) as commands,
            trio.lowlevel.FdStream(os.dup(self._answers.fileno())) as answers,
            trio.open_nursery() as nursery,
        ):
            browser = Browser(commands, answers, self._ids)
            nursery.start_soon(browser.read)
            try:
                yield browser
            finally:
                with trio.CancelScope(shield=True), trio.fail_after(WAIT_MS / 1000):
                    await browser.command("reset")
                nursery.cancel_scope.cancel()
