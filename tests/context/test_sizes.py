"""Sizes and shortening: C1."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwire.context.sizes import FILE_BYTES, bytes_of, cut, estimated_tokens, shortened
from turnwire.models.base import FileContent, ModelMessage, TextContent

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(TEXT, st.integers(4, 50))
def test_C1_a_text_is_cut_without_loss_and_within_the_limit(text: str, limit: int) -> None:
    pieces = list(cut(text, limit))
    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= limit for piece in pieces)


@pytest.mark.parametrize("limit", [100, 1_000])
def test_C1_a_shortened_text_keeps_both_ends_and_says_what_is_missing(limit: int) -> None:
    text = "start" + "x" * 5_000 + "end"
    short = shortened(text, limit)
    assert short.startswith("start")
    assert short.endswith("end")
    assert f"{len(text) - limit} characters left out" in short
    assert len(short) < limit + 50
    assert shortened(text, len(text)) == text


def test_C1_a_file_counts_less_than_its_bytes() -> None:
    image = ModelMessage("user", (FileContent("data:image/png;base64," + "x" * 10**6, "image/png"),))
    assert FILE_BYTES < bytes_of([image]) < 2 * FILE_BYTES
    assert estimated_tokens([ModelMessage("user", (TextContent("é" * 400),))]) == 204
