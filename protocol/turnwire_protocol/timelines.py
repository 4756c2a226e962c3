"""Timelines: scripted conversations as data, for servers and clients in any language ("Conformance" in SPEC.md).

Only the format lives here, and that of the steps in `timeline_steps`, `server_steps` and `client_steps`. Patterns are
matched in `turnwire.conformance.patterns`; running timelines against a server or a client is the rest of that package.
"""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from turnwire_protocol.client_steps import ClientStep
from turnwire_protocol.server_steps import ServerStep
from turnwire_protocol.timeline_steps import Name, Template

Need: TypeAlias = Literal[
    "control", "workspace", "tokens", "reconnect", "token", "prompt", "stop", "respond", "older", "msgpack", "silence"
]
"""What a timeline asks for beyond the wire. Of a server: `control` (it can be started and killed), `workspace` (the
tool `write_file`, which asks for approval), `tokens` (the key that it checks them with is known). Of a client: what
its driver says that it can do."""


class ServerTimeline(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A conversation with a server that is under test. The first of `rules` is the one that a failure breaks."""

    name: str
    rules: Annotated[tuple[str, ...], Meta(min_length=1)]
    needs: tuple[Need, ...] = ()
    steps: tuple[ServerStep, ...]


class ClientTimeline(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A conversation with a client that is under test; the steps play the server."""

    name: str
    rules: Annotated[tuple[str, ...], Meta(min_length=1)]
    needs: tuple[Need, ...] = ()
    steps: tuple[ClientStep, ...]


class _File(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, tag_field="under_test"):
    let: dict[Name, Template] = {}
    """Values for the variables of all timelines in the file."""


class ServerTimelines(_File, tag="server", kw_only=True, frozen=True):
    """One file of timelines for servers."""

    timelines: tuple[ServerTimeline, ...]


class ClientTimelines(_File, tag="client", kw_only=True, frozen=True):
    """One file of timelines for clients."""

    timelines: tuple[ClientTimeline, ...]


TimelineFile: TypeAlias = ServerTimelines | ClientTimelines


def timelines_schema() -> dict[str, Any]:
    """The JSON Schema of a file of timelines."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:turnwire:v1:timelines",
        "title": "Timelines of Turnwire's conformance pack",
        **msgspec.json.schema(TimelineFile),
    }
