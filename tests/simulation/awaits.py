"""Awaits: all those of some packages, as their sources have them, and at which of them a task stands."""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

import trio

Waiting = ast.Await | ast.AsyncFor | ast.AsyncWith


class Await(NamedTuple):
    """One await. What it waits for tells it from the others of its function, so that it may move."""

    function: str
    """`module.Class.function`"""
    code: str

    def __str__(self) -> str:
        return f"{self.function}: {self.code}"


class Awaits:
    """The awaits of all modules of some packages."""

    def __init__(self, packages: Iterable[ModuleType]) -> None:
        self._places: dict[str, list[tuple[range, Await]]] = {}
        """By file: lines and what waits there, the outer before the inner."""
        for package in packages:
            for folder in package.__path__:
                for path in sorted(Path(folder).glob("*.py")):
                    tree = ast.parse(path.read_text())
                    self._places[str(path)] = list(_awaits_of(tree, f"{Path(folder).name}.{path.stem}"))

    @property
    def all(self) -> set[Await]:
        return {found for places in self._places.values() for _, found in places}

    def of_task(self, task: trio.lowlevel.Task) -> tuple[Await, ...]:
        """Where a task waits that does not run just now, outermost first."""
        return self._at((frame.f_code.co_filename, line) for frame, line in task.iter_await_frames())

    def here(self) -> tuple[Await, ...]:
        """Where the running task is, outermost first."""
        frames: list[FrameType] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        return self._at((frame.f_code.co_filename, frame.f_lineno) for frame in reversed(frames))

    def _at(self, lines: Iterable[tuple[str, int]]) -> tuple[Await, ...]:
        found: list[Await] = []
        for file, line in lines:
            here = [place for lines_of_it, place in self._places.get(file, ()) if line in lines_of_it]
            found += here[-1:]
        return tuple(found)


def _awaits_of(tree: ast.AST, function: str) -> Iterator[tuple[range, Await]]:
    """Depth first; an await that a function has twice is counted, so that no two are the same."""
    seen: dict[str, int] = {}
    for node in _nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _awaits_of(node, f"{function}.{node.name}")
        elif isinstance(node, Waiting):
            code = _code(node)
            seen[code] = seen.get(code, 0) + 1
            name = code if seen[code] == 1 else f"{code} #{seen[code]}"
            last = node.end_lineno if isinstance(node, ast.Await) else node.lineno
            yield range(node.lineno, (last or node.lineno) + 1), Await(function, name)


def _nodes_of(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes in a function or class, and the functions and classes in it, but not what is in those."""
    for node in ast.iter_child_nodes(tree):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _nodes_of(node)


def _code(node: Waiting) -> str:
    match node:
        case ast.Await():
            return ast.unparse(node)
        case ast.AsyncFor():
            return f"async for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"
        case ast.AsyncWith():
            return f"async with {', '.join(map(ast.unparse, node.items))}"
