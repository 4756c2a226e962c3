"""The view on the language-neutral cases of `vectors/merge/`, which the TypeScript view passes as well."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from turnwire_protocol.view import SessionView

MERGE = Path(__file__).parents[2] / "protocol" / "vectors" / "merge"
CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted(MERGE.glob("*.json"))
    for case in json.loads(path.read_text("utf-8"))["cases"]
]


def test_W5_every_file_of_merge_vectors_has_cases() -> None:
    files = sorted(MERGE.glob("*.json"))
    assert files
    for path in files:
        assert json.loads(path.read_text("utf-8"))["cases"], path.name


@pytest.mark.parametrize("case", CASES)
def test_W5_the_view_passes_the_merge_vector(case: dict[str, Any]) -> None:
    view = SessionView(case["session_id"])
    for number, step in enumerate(case["steps"], 1):
        effect = _take(view, copy.deepcopy(step))
        assert effect == step.get("effect"), f"step {number}: {step}"
    assert {name: getattr(view, name) for name in case["expect"]} == case["expect"]


@pytest.mark.parametrize("case", CASES)
def test_W5_looking_after_every_step_changes_nothing(case: dict[str, Any]) -> None:
    """Text is joined on demand: whoever looks in between must get the same end, and no frame is ever changed."""
    view = SessionView(case["session_id"])
    untouched = copy.deepcopy(case["steps"])
    for step in case["steps"]:
        _take(view, step)
        json.dumps([view.messages, view.interactions, view.queue])
    assert {name: getattr(view, name) for name in case["expect"]} == case["expect"]
    assert case["steps"] == untouched


def _take(view: SessionView, step: dict[str, Any]) -> str | None:
    if "receive" in step:
        return view.receive(step["receive"])
    if "add_page" in step:
        return view.add_page(step["add_page"], step.get("before_sequence"))
    assert step == {"disconnected": True}
    view.disconnected()
    return None
