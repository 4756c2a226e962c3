"""Context Parts at the model boundary: tagged text that no content can break out of (P3)."""

import re

_TAG = re.compile(r"[a-z][a-z0-9_-]*")
_LOOKS_ESCAPED = re.compile(r"&(?=(?:amp;)*lt;)")
"""An `&` that would read as one of our escapes if it stayed."""
_ESCAPED = re.compile(r"&(?:amp;(?=(?:amp;)*lt;)|lt;)")


def tagged(tag: str, content: str) -> str:
    """`<tag>content</tag>`, in which the content can neither close nor open a tag (P3).

    Every `<` of the content becomes `&lt;`; an `&` is changed only where the text would otherwise read as such an
    escape. So nothing else is changed, and what was written can be told from what was escaped.

    Raises ValueError when `tag` is not `[a-z][a-z0-9_-]*`.
    """
    if not _TAG.fullmatch(tag):
        raise ValueError(f"not a tag: {tag!r}")
    safe = _LOOKS_ESCAPED.sub("&amp;", content).replace("<", "&lt;")
    return f"<{tag}>{safe}</{tag}>"


def unescaped(text: str) -> str:
    """What was written, from text that stands between tags, or that a model repeats from there (P3)."""
    return _ESCAPED.sub(lambda found: "<" if found[0] == "&lt;" else "&", text)
