"""Which tools there are: by name for the session loop, as specs for the model. How one is made is `functions`."""

from collections.abc import Iterable, Iterator

from turnwire.models.base import ToolSpec
from turnwire.tools.base import Tool
from turnwire.tools.calls import call
from turnwire.tools.functions import tool

__all__ = ["ToolRegistry", "call", "tool"]


class ToolRegistry:
    """The tools of one server, in the order in which they were added; names are unique."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        """Raises TypeError and ValueError as `add` does."""
        if isinstance(tools, Tool):
            raise TypeError(f"expected several tools, not the tool {tools.name} alone: [{tools.name}]")
        self._tools: dict[str, Tool] = {}
        self._specs: tuple[ToolSpec, ...] = ()
        for each in tools:
            self.add(each)

    def add(self, tool: Tool) -> None:
        """Raises ValueError when there is a tool of that name, or when it neither runs nor asks, or does both.

        Raises TypeError for what is no Tool.
        """
        if not isinstance(tool, Tool):
            raise TypeError(f"{getattr(tool, '__name__', tool)!r} is no Tool: decorate the function with @tool")
        known = self._tools.get(tool.name)
        if known is not None:
            raise ValueError(
                f"two tools are named {tool.name}: {_first_line(known)!r} and {_first_line(tool)!r}; rename one"
            )
        if (tool.run is None) == (tool.question is None):
            raise ValueError(f"tool {tool.name}: set either run or question")
        self._tools[tool.name] = tool
        self._specs += (ToolSpec(tool.name, tool.description, tool.input_schema),)

    def get(self, name: str) -> Tool | None:
        """The tool of that name; None when the model has invented it."""
        return self._tools.get(name)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told of the tools."""
        return self._specs

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def _first_line(tool: Tool) -> str:
    return tool.description.partition("\n")[0]
