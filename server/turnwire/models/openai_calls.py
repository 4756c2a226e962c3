"""Calls of tools in Chat Completions: which fragment belongs to which call, however a server numbers them. No I/O.

OpenAI itself gives every fragment the `index` of its call, and `id` and name with the first one. Others leave the index
or the id out, give every call the index 0, make up a new id for every fragment, say the name again each time or only
later, or send a whole call at once, its arguments as text or as an object.
"""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from turnwire.models.blocks import Blocks
from turnwire.models.service_errors import malformed


class FunctionFragment(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallFragment(Struct):
    """One entry of `delta.tool_calls`."""

    index: int | None = None
    id: str | None = None
    function: FunctionFragment | None = None


class _Call:
    def __init__(self) -> None:
        self.id: str | None = None
        self.name = ""
        self.block: int | None = None
        """Its block, once the name is known."""
        self.arguments: list[str] = []


_Key: TypeAlias = int | str


class Calls:
    """The calls of one answer, written into its blocks as their fragments come.

    `before_call` is called before a block begins, so that what was being said can end.
    """

    def __init__(self, blocks: Blocks, before_call: Callable[[], None]) -> None:
        self._blocks = blocks
        self._before_call = before_call
        self._calls: list[_Call] = []
        self._by_key: dict[_Key, _Call] = {}
        """The newest call of an index or of an id."""

    def add(self, fragment: CallFragment) -> None:
        """Takes one fragment."""
        function = fragment.function or FunctionFragment()
        text = _text(function.arguments)
        call = self._call_of(fragment, function.name or "", text)
        call.id = call.id or fragment.id or None
        for key in (fragment.index, fragment.id or None):
            if key is not None:
                self._by_key[key] = call
        call.arguments.append(text)
        if call.block is not None:
            self._blocks.append(call.block, text)
            return
        if not function.name:
            return  # what it is called comes later
        self._before_call()
        call.name = function.name
        call.block = self._blocks.start("tool", tool_call_id=call.id, tool_name=call.name)
        self._blocks.append(call.block, "".join(call.arguments))

    def check(self) -> None:
        """Raises ModelError `malformed_stream` for a call that never got a name."""
        if any(call.block is None for call in self._calls):
            raise malformed("it calls a tool without a name")

    def _call_of(self, fragment: CallFragment, name: str, text: str) -> _Call:
        known = self._known(fragment, name)
        if known is None or _begins_another(known, fragment, name, text):
            known = _Call()
            self._calls.append(known)
        return known

    def _known(self, fragment: CallFragment, name: str) -> _Call | None:
        """The call that the fragment points at, if it has begun."""
        if fragment.index is not None:
            return self._by_key.get(fragment.index)
        if fragment.id and (call := self._by_key.get(fragment.id)) is not None:
            return call
        if fragment.id and name:
            return None
        return self._calls[-1] if self._calls else None


def _begins_another(known: _Call, fragment: CallFragment, name: str, text: str) -> bool:
    """Whether a fragment that points at a known call is the first of a new one: only those can be that say a name."""
    if not name or not known.name:
        return False
    if name != known.name or (fragment.id and known.id and fragment.id != known.id):
        return True
    # The same name again: a new call if the one before it is whole, and the fragment does not just repeat itself.
    unnumbered = fragment.index is None and not fragment.id
    return (text.lstrip().startswith("{") if text else unnumbered) and _is_whole(known.arguments)


def _is_whole(arguments: list[str]) -> bool:
    if not next((text for text in reversed(arguments) if text), "").rstrip().endswith("}"):
        return False
    try:
        json.loads("".join(arguments))
    except (ValueError, RecursionError):
        return False
    return True


def _text(arguments: str | dict[str, Any] | None) -> str:
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments or ""
