"""What the scripted model says: its canned texts, and how they are cut into deltas. No commands, no clocks."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from turnwire.models.base import ToolResultContent, clean_text

QUOTED_CHARACTERS: Final = 40
"""How much of a word or a tool's result is repeated."""

RESULTS_NAMED: Final = 3
"""How many results of tools are repeated."""

TITLE_WORDS: Final = 6
"""How many words a title has at most."""

_USER_LINE: Final = re.compile(r"(?:^|>)User: (.*)", re.MULTILINE)
_TITLE_LINE: Final = re.compile(r"(?:^|>)(?:User: )?/title (.*\S)", re.MULTILINE)
"""What the user said, at the beginning of a transcript or of a line in it."""

_WORDS: Final = re.compile(r"\s*\S+[ \n]*|\s+")
_FILLER: Final = "The quick brown fox jumps over the lazy dog, then takes a nap. \n"

UNICODE: Final = tuple(
    "Emoji \U0001f680 \U0001f44d\U0001f3fd, family \U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466, "
    "flag \U0001f1e8\U0001f1ed, keycap 1\ufe0f\u20e3, "
    "combining e\u0301 n\u0303 a\u0328\u0301, Devanagari \u0915\u094d\u0937\u093f, "
    "Hangul \u1112\u1161\u11ab, right to left \u05e9\u05c1\u05b8\u05dc\u05d5\u05b9\u05dd, "
    "Chinese \u4f60\u597d, beyond the BMP \U0002070e."
)
"""Code points, one delta each: characters are whole, but what a reader sees as one character is split."""

MARKDOWN: Final = """\
# A showcase of Markdown

Plain text with **bold**, *italic*, ~~struck~~ and `code`, and a [link](https://example.org/ "a title").

## Lists

1. first
2. second
   - nested
   - [x] done
   - [ ] to do

## A table

| name | revision | state |
|:-----|---------:|:-----:|
| text | 12 | `done` |
| tool | 13 | `running` |

## Code

```python
async def answer(question: str) -> str:
    return "<b>42</b>"  # stays text
```

> A quote,
> over two lines.

---

### Hostile content

All of this is text that a model may say, and none of it may run or load:

<script>document.title = "hacked"</script>
<img src="https://example.invalid/tracker.png" onerror="document.title = 'hacked'">
<a href="javascript:document.title='hacked'">a link</a>

![a remote image](https://example.invalid/pixel.png) and [another link](javascript:document.title='hacked').
"""


def words_of(text: str) -> Iterator[str]:
    """The text in pieces of one word each, with the space that follows; joined they are the text."""
    return iter(_WORDS.findall(text))


def pieces(text: str, chunk: int) -> Iterator[str]:
    """The text in pieces of `chunk` characters, the last one maybe shorter."""
    return (text[start : start + chunk] for start in range(0, len(text), chunk))


def filler(size: int, chunk: int) -> Iterator[str]:
    """Exactly `size` bytes of ASCII prose in pieces of `chunk` bytes, the last one maybe shorter."""
    long = _FILLER * (chunk // len(_FILLER) + 2)
    for start in range(0, size, chunk):
        offset = start % len(_FILLER)
        yield long[offset : offset + min(chunk, size - start)]


def greeting(prompt: str, count: int) -> str:
    """The answer to a prompt without commands, the `count`-th of its conversation: the same for the same prompt."""
    words = prompt.split()
    heard = f"I counted **{len(words)} word{'' if len(words) == 1 else 's'}**"
    if words:
        longest = clean_text(max(words, key=len)).replace("`", "'")
        shown = longest if len(longest) <= QUOTED_CHARACTERS else longest[:QUOTED_CHARACTERS] + "…"
        heard += f", the longest is `{shown}`"
    return (
        f"Hello! This is answer {count} of our conversation. {heard}.\n\n"
        "I am the *scripted* model: I understand nothing, but I stream like one that does. Try\n\n"
        "- `/help` for all that I can play,\n"
        "- `/markdown` for a showcase,\n"
        "- `/stream 200` and a second tab on this conversation, in mid-answer.\n"
    )


def about_results(results: Sequence[ToolResultContent]) -> str:
    """What is said when all commands are played and tools have answered: the same for the same results."""
    shown = "; ".join(_about_result(result) for result in results[:RESULTS_NAMED])
    more = f"; and {len(results) - RESULTS_NAMED} more" if len(results) > RESULTS_NAMED else ""
    failed = sum(result.failed for result in results)
    count = f"{len(results)} tool call{'' if len(results) == 1 else 's'}"
    outcome = "all of them well" if not failed else f"{failed} of them failed"
    return f"That was {count}, {outcome}: {shown}{more}.\n"


def _about_result(result: ToolResultContent) -> str:
    verb = "failed with" if result.failed else "gave"
    return f"`{_quoted(result.tool_name)}` {verb} `{_quoted(result.output)}`"


def _quoted(text: str) -> str:
    """Text as one line that fits between backticks."""
    line = " ".join(clean_text(text[: 2 * QUOTED_CHARACTERS]).replace("`", "'").split())
    return line if len(line) <= QUOTED_CHARACTERS else line[:QUOTED_CHARACTERS] + "…"


def title_of(told: str) -> str:
    """What a `/title` line of the user says, else the first words of the first thing that the user said."""
    chosen = _TITLE_LINE.search(told)
    if chosen is not None:
        return clean_text(chosen.group(1).strip())
    said = _USER_LINE.search(told)
    words = said.group(1).strip("/ ").split() if said else []
    return clean_text(" ".join(words[:TITLE_WORDS])).capitalize() or "A conversation"


def summary_of(told: str) -> str:
    """How often the user spoke in a transcript, and the first and last words."""
    said = [clean_text(line)[:QUOTED_CHARACTERS].strip() for line in _USER_LINE.findall(told)]
    if not said:
        return "The user said nothing so far."
    times = "once" if len(said) == 1 else f"{len(said)} times"
    return f"The user spoke {times}, from `{said[0]}` to `{said[-1]}`."
