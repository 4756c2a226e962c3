"""Fixtures of the end-to-end tests: a data file, a server process on it, a browser."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from browser_driver import CHROMIUM, Browser, Chromium
from harness import ServerProcess, server_process
from model_service import service

__all__ = ["chromium", "data", "server", "service", "the_chromium"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "turnwire.db"


@pytest.fixture
async def server(data: Path) -> AsyncIterator[ServerProcess]:
    async with server_process(data) as process:
        yield process


@pytest.fixture(scope="session")
def the_chromium() -> Iterator[Chromium]:
    if CHROMIUM is None:
        pytest.skip("left out: Chromium is not installed on this machine")
    chromium = Chromium()
    yield chromium
    chromium.close()


@pytest.fixture
async def chromium(the_chromium: Chromium) -> AsyncIterator[Browser]:
    async with the_chromium.tabs() as browser:
        yield browser
