"""Fixtures of the tool tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from turnwire.tools.base import Tool, ToolContext, ToolResult
from turnwire.tools.calls import call
from turnwire.tools.folder import Folder
from turnwire.tools.registry import ToolRegistry
from turnwire.tools.workspace import file_tools

Changed: TypeAlias = tuple[str, str | None, str | None]


class Workspace:
    """A folder with the file tools on it, what they reported, and a neighbour that nothing may reach."""

    def __init__(self, top: Path) -> None:
        self.root = top / "workspace"
        self.outside = top / "outside"
        self.root.mkdir()
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text("secret")
        self.tools = ToolRegistry(file_tools(Folder(self.root)))
        self.changes: list[Changed] = []
        self.context = context_of(self.changes)

    async def use(self, name: str, **input: Any) -> ToolResult:
        tool = self.tools.get(name)
        assert tool is not None
        return await call(tool, input, self.context)

    async def output(self, name: str, **input: Any) -> Any:
        result = await self.use(name, **input)
        assert not result.failed, result.error
        return result.output

    async def error(self, name: str, **input: Any) -> str:
        result = await self.use(name, **input)
        assert result.failed
        assert result.error is not None
        return result.error

    def assert_untouched(self) -> None:
        """Nothing outside has changed, and no draft was left inside."""
        assert {path.name: path.read_text() for path in self.outside.iterdir()} == {"secret.txt": "secret"}
        assert not list(self.root.rglob(".turnwire-*"))


def context_of(changes: list[Changed]) -> ToolContext:
    return ToolContext(
        session_id="s1",
        turn_id="t1",
        tool_call_id="c1",
        changed=lambda path, before, after: changes.append((path, before, after)),
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.fixture
def context() -> ToolContext:
    """A context whose reports nobody reads."""
    return context_of([])


Use: TypeAlias = Callable[..., Any]


@pytest.fixture
def use(context: ToolContext) -> Use:
    """`await use(tool, **input)` calls a tool."""

    async def run(tool: Tool, **input: Any) -> ToolResult:
        return await call(tool, input, context)

    return run
