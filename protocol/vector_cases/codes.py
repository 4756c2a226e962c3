"""The tables of `codes` for other languages."""

import msgspec

from turnwire_protocol.codes import CLOSE_CODES, ERROR_CODES
from vector_cases.frames import Plain


def codes() -> Plain:
    """Every error code by name and every close code by number, with what a client does next."""
    return {
        "errors": [msgspec.to_builtins(code) for code in ERROR_CODES.values()],
        "closes": [msgspec.to_builtins(code) for code in CLOSE_CODES.values()],
    }
