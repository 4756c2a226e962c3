"""The JSON Schema of everything on the wire, made from the structs; the golden copy stands in `schema/`.

What a schema cannot say stands in SPEC.md: order, numbers that go on, depth and size of free-form data.
"""

from typing import Any, Final, get_args

import msgspec
from msgspec import Struct, structs

from turnwire_protocol import frames, messages, mutations, parts

SCHEMA_ID: Final = "urn:turnwire:v1"


class Empty(Struct, frozen=True):
    """A result that says only that it was done."""


RESULTS: Final[dict[str, type]] = {
    "ping": Empty,
    "session.create": frames.SessionResult,
    "session.list": frames.SessionPage,
    "session.get": frames.SessionResult,
    "session.update": frames.SessionResult,
    "subscribe": frames.Joined,
    "reload": frames.Joined,
    "unsubscribe": Empty,
    "messages": messages.Page,
    "prompt": frames.Receipt,
    "stop": frames.StopResult,
    "session.fork": frames.SessionResult,
    "session.archive": Empty,
    "session.delete": Empty,
    "interactions": frames.InteractionList,
    "interaction.respond": frames.InteractionAnswer,
}
"""What `result` holds, by the `op` of the request; `hello` is answered by `welcome`."""


def schema() -> dict[str, Any]:
    """The schema (draft 2020-12): any frame at the root; requests, frames, results and the rest under `$defs`."""
    groups: dict[str, tuple[type, ...]] = {
        "Request": get_args(frames.Request),
        "Part": get_args(parts.Part),
        "Message": get_args(messages.Message),
        "Mutation": tuple(map(_as_sent, mutations.MUTATION_TYPES)),
    }
    server_frames = get_args(frames.ServerFrame)
    types = [type for group in groups.values() for type in group]
    references, definitions = msgspec.json.schema_components(
        [*types, *server_frames, *RESULTS.values()], ref_template="#/$defs/{name}"
    )
    reference_of = dict(zip([*types, *server_frames, *RESULTS.values()], references, strict=True))
    for definition in definitions.values():
        _require_what_is_always_sent(definition)
    for name, group in groups.items():
        definitions[name] = {"anyOf": [reference_of[type] for type in group]}
    definitions["MutationFrame"] = _mutation_frame()
    definitions["ServerFrame"] = {"anyOf": [*(reference_of[type] for type in server_frames), _ref("MutationFrame")]}
    definitions |= {f"Result of {op}": reference_of[type] for op, type in RESULTS.items()}
    definitions["Page"]["properties"]["items"]["items"] = _ref("Message")
    del definitions["Config"]["additionalProperties"]  # clients ignore fields that they do not know
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "Turnwire, version 1",
        "anyOf": [_ref("Request"), _ref("ServerFrame")],
        "$defs": dict(sorted(definitions.items())),
    }


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _as_sent(mutation: type) -> type:
    """The struct as a reader sees it: a Message that travels as stored JSON text is a Message."""
    if mutation is not mutations.MessageMutation:
        return mutation
    fields = [
        (field.name, messages.Message if field.name == "message" else field.type, field.default)
        for field in structs.fields(mutation)
    ]
    config = mutation.__struct_config__
    return msgspec.defstruct(
        mutation.__name__,
        fields,
        tag_field=config.tag_field,
        tag=config.tag,
        kw_only=True,
        namespace={"__doc__": mutation.__doc__},
    )


def _require_what_is_always_sent(definition: dict[str, Any]) -> None:
    """A field with a default is sent like any other; only absent fields have none (`UNSET`)."""
    constant = [name for name, field in definition.get("properties", {}).items() if "default" in field]
    if constant:
        definition["required"] = [*definition.get("required", []), *constant]


def _mutation_frame() -> dict[str, Any]:
    return {
        "title": "MutationFrame",
        "description": "A Mutation's own fields after `op`, `epoch` and `seq`, in one flat map (W5).",
        "type": "object",
        "properties": {
            "op": {"const": "mutation"},
            "epoch": {"type": "string"},
            "seq": {"type": "integer", "minimum": 1, "maximum": parts.MAX_SAFE_INTEGER},
        },
        "required": ["op", "epoch", "seq"],
        "allOf": [_ref("Mutation")],
    }
