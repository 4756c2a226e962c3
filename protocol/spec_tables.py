"""The generated tables of SPEC.md, each between its two markers."""

import re
from collections.abc import Iterable

from turnwire_protocol.codes import CLOSE_CODES, ERROR_CODES
from turnwire_protocol.lifecycle import LIFECYCLES


def with_tables(spec: str) -> str:
    """SPEC.md with every table as the sources have it. Raises ValueError when a pair of markers is missing."""
    for name, lines in (("lifecycles", _lifecycles()), ("errors", _errors()), ("closes", _closes())):
        marked = re.compile(f"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL)
        if not marked.search(spec):
            raise ValueError(f"SPEC.md has no markers for {name!r}")
        text = "\n".join((f"<!-- {name} -->", *lines, f"<!-- /{name} -->"))
        spec = marked.sub(text.replace("\\", r"\\"), spec)
    return spec


def _lifecycles() -> Iterable[str]:
    yield "```text"
    for number, lifecycle in enumerate(LIFECYCLES):
        if number:
            yield ""
        yield f"{lifecycle.name}, beginning as {' or '.join(lifecycle.initial)}"
        for state, following in lifecycle.moves.items():
            if following:
                yield f"    {state:<16} -> {' | '.join(following)}"
        yield f"    terminal: {', '.join(state for state in lifecycle.moves if state in lifecycle.terminal)}"
    yield "```"


def _errors() -> Iterable[str]:
    yield "| `code` | `retryable` | meaning |"
    yield "|---|---|---|"
    for code in ERROR_CODES.values():
        yield f"| `{code.name}` | {'yes' if code.retryable else 'no'} | {code.sentence} |"


def _closes() -> Iterable[str]:
    yield "| close code | name | then | meaning |"
    yield "|---|---|---|---|"
    for code in CLOSE_CODES.values():
        yield f"| {code.code} | `{code.name}` | `{code.retry}` | {code.sentence} |"
