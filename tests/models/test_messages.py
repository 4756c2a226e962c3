"""What history becomes in each API: messages, calls and results, files, and tools (C1, P3)."""

import base64
from typing import Any

import pytest

from turnwire.models.anthropic_messages import BEGINNING, GO_ON, wire_input
from turnwire.models.base import (
    Content,
    FileContent,
    ModelMessage,
    ReasoningContent,
    TextContent,
    ToolCallContent,
    ToolResultContent,
    ToolSpec,
)
from turnwire.models.openai_messages import wire_messages

Map = dict[str, Any]

PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0="
SCHEMA: Map = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = ToolSpec("weather", "Tells the weather.", SCHEMA)


def user(*content: Content) -> ModelMessage:
    return ModelMessage("user", content)


def said(*content: Content) -> ModelMessage:
    return ModelMessage("assistant", content)


TOOL_LOOP = (
    ModelMessage("system", (TextContent("Be brief."), TextContent("Be kind."))),
    user(TextContent("a"), TextContent("b \ud800")),
    said(
        ReasoningContent("Hm."),
        TextContent("Let me see."),
        ToolCallContent("call:1", "weather", '{"city":"Paris"}'),
        ToolCallContent("call-2", "made up!", "{}"),
    ),
    ModelMessage(
        "tool",
        (
            ToolResultContent("call:1", "weather", '{"sky":"blue"}'),
            ToolResultContent("call-2", "made up!", "there is no tool named 'made up!'", failed=True),
        ),
    ),
    user(TextContent("And Rome?")),
    said(ReasoningContent("Only a thought.")),
    user(TextContent("Well?")),
)


def test_C1_a_tool_loop_in_chat_completions() -> None:
    messages = wire_messages(TOOL_LOOP)
    call_id = messages[2]["tool_calls"][0]["id"]
    assert call_id != "call:1"
    assert messages == [
        {"role": "system", "content": "Be brief.\nBe kind."},
        {"role": "user", "content": "a\nb \ufffd"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {
                    "id": call_id,
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
                },
                {"id": "call-2", "type": "function", "function": {"name": "made_up_", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": call_id, "content": '{"sky":"blue"}'},
        {
            "role": "tool",
            "tool_call_id": "call-2",
            "content": "The call failed: there is no tool named 'made up!'",
        },
        {"role": "user", "content": "And Rome?"},
        {"role": "user", "content": "Well?"},
    ]


def test_C1_a_tool_loop_in_the_messages_api() -> None:
    request = wire_input(TOOL_LOOP, (WEATHER,))
    call_id = request["messages"][1]["content"][1]["id"]
    assert call_id != "call:1"
    assert request == {
        "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b \ufffd"}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": call_id, "name": "weather", "input": {"city": "Paris"}},
                    {"type": "tool_use", "id": "call-2", "name": "made_up_", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": call_id, "content": '{"sky":"blue"}'},
                    {
                        "type": "tool_result",
                        "tool_use_id": "call-2",
                        "content": "there is no tool named 'made up!'",
                        "is_error": True,
                    },
                    {"type": "text", "text": "And Rome?"},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ],
        "tools": [{"name": "weather", "description": "Tells the weather.", "input_schema": SCHEMA}],
    }


def test_C1_the_messages_api_gets_turns_that_alternate_and_are_the_users_at_both_ends() -> None:
    request = wire_input(
        (said(TextContent("a")), said(TextContent("b")), user(TextContent(" \n")), said(TextContent("c"))), ()
    )
    assert request == {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": BEGINNING}]},
            {"role": "assistant", "content": [{"type": "text", "text": text} for text in "abc"]},
            {"role": "user", "content": [{"type": "text", "text": GO_ON}]},
        ]
    }


def test_C1_results_come_first_and_calls_last_in_a_turn_of_the_messages_api() -> None:
    call = ToolCallContent("c", "t", "{}")
    request = wire_input(
        (
            user(TextContent("a")),
            said(call, TextContent("b")),
            user(TextContent("c")),
            ModelMessage("tool", (ToolResultContent("c", "t", "1"),)),
        ),
        (),
    )
    kinds = [[block["type"] for block in turn["content"]] for turn in request["messages"]]
    assert kinds == [["text"], ["text", "tool_use"], ["tool_result", "text"]]


def test_C1_a_later_system_message_stays_where_it_is() -> None:
    request = wire_input(
        (user(TextContent("a")), said(TextContent("b")), ModelMessage("system", (TextContent("c"),))), ()
    )
    assert "system" not in request
    assert request["messages"][-1] == {"role": "user", "content": [{"type": "text", "text": "c"}]}


def test_C1_calls_in_history_can_be_told_when_no_tool_may_be_called() -> None:
    """The Messages API refuses calls in history without tools, as when a title is asked for."""
    request = wire_input(TOOL_LOOP, ())
    assert request["tools"] == [
        {"name": "weather", "input_schema": {"type": "object"}},
        {"name": "made_up_", "input_schema": {"type": "object"}},
    ]
    assert request["tool_choice"] == {"type": "none"}
    assert "tools" not in wire_input((user(TextContent("a")),), ())


@pytest.mark.parametrize(
    ("input_json", "expected"),
    [('{"a":[1]}', {"a": [1]}), ("[1]", {"input": [1]}), ("null", {"input": None}), ('{"a":', {"input": '{"a":'})],
)
def test_C1_an_input_is_always_an_object_in_the_messages_api(input_json: str, expected: Map) -> None:
    request = wire_input((user(TextContent("a")), said(ToolCallContent("c", "t", input_json))), ())
    assert request["messages"][1]["content"][0]["input"] == expected


def data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(data).decode()}"


def document(kind: str, media_type: str, data: str, title: str) -> Map:
    return {"type": "document", "source": {"type": kind, "media_type": media_type, "data": data}, "title": title}


def text(text: str) -> Map:
    return {"type": "text", "text": text}


TABLE = data_url("text/csv", "a;é".encode())
FILES: dict[str, tuple[FileContent, Map, Map]] = {
    "an image at an address": (
        FileContent("https://example.org/a.png", "image/png"),
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
    ),
    "an image": (
        FileContent(PNG, "image/png"),
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
    ),
    "an image in percent signs": (
        FileContent("data:image/gif,GIF89a%00", "image/gif"),
        {"type": "image_url", "image_url": {"url": "data:image/gif,GIF89a%00"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": "R0lGODlhAA=="}},
    ),
    "a PDF": (
        FileContent(PDF, "application/pdf", "a.pdf"),
        {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        document("base64", "application/pdf", "JVBERi0=", "a.pdf"),
    ),
    "a PDF at an address": (
        FileContent("https://example.org/b.pdf", "application/pdf", "b.pdf"),
        text("[b.pdf (application/pdf): https://example.org/b.pdf]"),
        {"type": "document", "source": {"type": "url", "url": "https://example.org/b.pdf"}, "title": "b.pdf"},
    ),
    "a text": (
        FileContent(TABLE, "text/csv; charset=utf-8", "t.csv"),
        text("[t.csv]\na;é"),
        document("text", "text/plain", "a;é", "t.csv"),
    ),
    "broken base64": (
        FileContent("data:application/pdf;base64,J!", "application/pdf", "c.pdf"),
        {"type": "file", "file": {"filename": "c.pdf", "file_data": "data:application/pdf;base64,J!"}},
        text("[c.pdf (application/pdf): its content cannot be shown]"),
    ),
    "an address that is not fetched": (
        FileContent("http://10.0.0.1/a.png", "image/png"),
        {"type": "image_url", "image_url": {"url": "http://10.0.0.1/a.png"}},
        text("[file (image/png): http://10.0.0.1/a.png]"),
    ),
    "what no model reads": (
        FileContent("https://example.org/a.zip", "application/zip", "a\ud800.zip"),
        text("[a\ufffd.zip (application/zip): https://example.org/a.zip]"),
        text("[a\ufffd.zip (application/zip): https://example.org/a.zip]"),
    ),
}


@pytest.mark.parametrize(("file", "openai", "anthropic"), FILES.values(), ids=FILES)
def test_P2_files_are_shown_as_far_as_an_api_can(file: FileContent, openai: Map, anthropic: Map) -> None:
    message = user(TextContent("look"), file)
    ((openai_message,), request) = wire_messages([message]), wire_input([message], ())
    if openai["type"] == "text":
        assert openai_message["content"] == f"look\n{openai['text']}"
    else:
        assert openai_message["content"] == [text("look"), openai]
    assert request["messages"] == [{"role": "user", "content": [text("look"), anthropic]}]


def test_Z3_a_file_that_cannot_be_shown_does_not_fill_the_window() -> None:
    url = data_url("application/zip", bytes(100_000))
    request = wire_input([user(FileContent(url, "application/zip", "a.zip"))], ())
    assert request["messages"][0]["content"] == [text("[a.zip (application/zip): its content cannot be shown]")]
