"""Server-sent events: however the bytes are cut, the payloads are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwire.models.sse import MAX_LINE, SseDecoder, SseOverflow

STREAM = (
    ": comment\n\n"
    "data: one\n\n"
    "event: delta\nid: 7\nretry: 10\ndata:two\n\n"
    "data: three\ndata:  four\n\n"
    "\n\n"
    "data\n\n"
    "data: 🚀é\u2028\x0b\x85\n\n"
    "data: never finished"
)
PAYLOADS = ["one", "two", "three\n four", "🚀é\u2028\x0b\x85"]


@given(st.data(), st.sampled_from(["\n", "\r\n", "\r"]))
def test_L4_any_cut_gives_the_same_payloads(data: st.DataObject, line_end: str) -> None:
    encoded = STREAM.replace("\n", line_end).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(encoded)), max_size=30)))
    decoder, payloads = SseDecoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(encoded)], strict=True):
        payloads += decoder.feed(encoded[start:end])
    assert [payload.decode() for payload in payloads] == PAYLOADS


def test_L4_byte_by_byte() -> None:
    decoder = SseDecoder()
    payloads = [each for byte in STREAM.replace("\n", "\r\n").encode() for each in decoder.feed(bytes([byte]))]
    assert [payload.decode() for payload in payloads] == PAYLOADS


def test_Z3_a_line_without_end_is_refused() -> None:
    decoder = SseDecoder()
    for _ in range(MAX_LINE // 1024):
        assert decoder.feed(b"x" * 1024) == []
    with pytest.raises(SseOverflow, match=str(MAX_LINE)):
        decoder.feed(b"x")
