"""A program that embeds the server: what it gives wrongly is refused by name, how its provider ends is its affair."""

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from foreign_code import AT_ONCE, WHEN_CANCELLED, Foreign, name_of
from turnwire import Turnwire, tool
from turnwire.models.scripted import ScriptedProvider


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@pytest.mark.parametrize(
    ("options", "error", "sentence"),
    [
        ({"model": "gpt"}, ValueError, "unknown model 'gpt'"),
        ({"model": None}, TypeError, "model: None is no ModelProvider"),
        ({"model": object}, TypeError, "is no ModelProvider"),
        ({"tools": [add]}, TypeError, "'add' is no Tool: decorate the function with @tool"),
        ({"tools": tool(add)}, TypeError, "expected several tools, not the tool add alone"),
        ({"tools": [tool(add), tool(add)]}, ValueError, "two tools are named add"),
        ({"context_window_tokens": 0}, ValueError, "context_window_tokens: expected an integer >= 1, got 0"),
        ({"context_window_tokens": "8000"}, ValueError, "context_window_tokens: expected an integer >= 1, got '8000'"),
    ],
)
def test_T1_a_server_that_cannot_work_is_not_made(
    options: dict[str, Any], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as refused:
        Turnwire(tmp_path / "t.db", **options)
    assert sentence in str(refused.value)
    assert list(tmp_path.iterdir()) == []


class Stubborn(ScriptedProvider):
    """A provider that does not let go as it should."""

    def __init__(self, foreign: Foreign) -> None:
        super().__init__()
        self._foreign = foreign

    async def aclose(self) -> None:
        await self._foreign()


@pytest.mark.parametrize("foreign", [trio.sleep_forever, *AT_ONCE, *WHEN_CANCELLED], ids=name_of)
async def test_W8_a_provider_that_fails_to_close_does_not_make_the_end_a_failure(
    foreign: Foreign, tmp_path: Path, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    for provider in (Stubborn(foreign), "scripted"):  # the second one finds the file let go
        async with Turnwire(tmp_path / "t.db", model=provider).open():
            pass
    assert ("the model provider failed to close" in caplog.text) == (foreign is not trio.sleep_forever)
