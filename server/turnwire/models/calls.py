"""Ids and names of tool calls as services accept them: `[a-zA-Z0-9_-]`, and not too long.

Ids in history are the server's own, and names may be what a model has made up: one that a service does not accept
would fail every later request of the Session.
"""

import re
from hashlib import sha256
from typing import Final

ID_CHARACTERS: Final = 40
"""The longest id that OpenAI takes; Anthropic takes longer ones."""

NAME_CHARACTERS: Final = 64
"""The longest name of a tool that OpenAI takes; Anthropic takes longer ones."""

_DIGEST_CHARACTERS: Final = 16
_OTHER: Final = re.compile("[^a-zA-Z0-9_-]")


def wire_id(tool_call_id: str) -> str:
    """The id as a service accepts it: different ones stay different, and the same one is the same in every request."""
    if tool_call_id and len(tool_call_id) <= ID_CHARACTERS and not _OTHER.search(tool_call_id):
        return tool_call_id
    digest = sha256(tool_call_id.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{_OTHER.sub('_', tool_call_id)[: ID_CHARACTERS - 1 - _DIGEST_CHARACTERS]}-{digest}"


def wire_name(tool_name: str) -> str:
    """The name as a service accepts it; a tool's own name is not changed by this."""
    return _OTHER.sub("_", tool_name)[:NAME_CHARACTERS] or "unnamed"
