"""A program that embeds the server: what it gives wrongly is refused at once, and by name."""

from pathlib import Path
from typing import Any

import pytest

from turnwire import Turnwire, tool


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
