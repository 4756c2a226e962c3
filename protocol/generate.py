"""Writes everything under `protocol/` that is made from the sources; `--check` only says what is out of date.

`python protocol/generate.py [--check]`. The tests run it with `--check`.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spec_tables import with_tables
from turnwire_protocol.schema import schema
from turnwire_protocol.timelines import timelines_schema
from vector_cases import (
    codes,
    merge_interactions,
    merge_joining,
    merge_losses,
    merge_multipart,
    merge_output,
    merge_pages,
    merge_reconnects,
    merge_state,
    requests,
    server_frames,
)

HERE = Path(__file__).resolve().parent
WRITTEN_BY_HAND = Path("vectors/timelines")


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _case(case: Mapping[str, Any]) -> str:
    """One case, with every step on a line of its own, so that a change can be read in a diff."""
    fields = []
    for name, value in case.items():
        if name == "steps" and value:
            fields.append('"steps":[\n    ' + ",\n    ".join(map(_line, value)) + "]")
        else:
            fields.append(f"{_line(name)}:{_line(value)}")
    return "  {" + ",\n   ".join(fields) + "}"


def _cases(cases: Iterable[Mapping[str, Any]]) -> str:
    return '{"cases":[\n' + ",\n".join(map(_case, cases)) + "\n]}\n"


def outputs() -> dict[Path, str]:
    """The text of every generated file, by its path below `protocol/`."""
    merge = {
        "interleavings": merge_joining.interleavings(),
        "joins": merge_joining.joins(),
        "joining": merge_joining.joining(),
        "gaps": merge_losses.gaps(),
        "reconnects": merge_reconnects.reconnects(),
        "epochs": merge_reconnects.epochs(),
        "statuses": merge_losses.statuses(),
        "multipart": merge_multipart.multipart(),
        "checkpoints": merge_output.checkpoints(),
        "turns": merge_state.turns(),
        "settings": merge_state.settings(),
        "approvals": merge_interactions.approvals(),
        "unknowns": merge_state.unknowns(),
        "pages": merge_pages.pages(),
    }
    codec = {
        "requests": requests.requests(),
        "malformed": requests.malformed(),
        "server_frames": server_frames.server_frames(),
    }
    return {
        **{Path("vectors/merge", f"{name}.json"): _cases(cases) for name, cases in merge.items()},
        **{Path("vectors/codec", f"{name}.json"): _cases(cases) for name, cases in codec.items()},
        Path("SPEC.md"): with_tables((HERE / "SPEC.md").read_text("utf-8")),
        Path("schema/turnwire.v1.schema.json"): json.dumps(schema(), indent=1) + "\n",
        Path("schema/turnwire.v1.timelines.schema.json"): json.dumps(timelines_schema(), indent=1) + "\n",
        Path("vectors/codes.json"): json.dumps(codes.codes(), indent=2) + "\n",
    }


def outdated() -> list[Path]:
    """Generated files that are missing or differ from what the sources say, and ones that no source accounts for."""
    wanted = outputs()
    differing = [path for path, text in wanted.items() if not _says(HERE / path, text)]
    files = [path.relative_to(HERE) for folder in ("vectors", "schema") for path in (HERE / folder).rglob("*.json")]
    orphans = [path for path in files if path not in wanted and not path.is_relative_to(WRITTEN_BY_HAND)]
    return sorted({*differing, *orphans})


def _says(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text("utf-8") == text


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if arguments:
        late = outdated()
        for path in late:
            print(f"protocol/{path} is not what the sources say; run `python protocol/generate.py`")
        return 1 if late else 0
    for path, text in outputs().items():
        (HERE / path).parent.mkdir(parents=True, exist_ok=True)
        (HERE / path).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
