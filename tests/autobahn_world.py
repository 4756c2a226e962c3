"""Running the cases of the Autobahn test suite with `kosoku`, and what is expected of them."""

import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio

from echo_server import echo_server

Results = dict[str, dict[str, Any]]

EXPECTED = {
    "7.1.5": "a close frame within a fragmented message: websockets closes with 1002, since the message is incomplete",
    "9.3.1": "websockets takes at most 4,096 fragments for one message, and closes with 1009",
    "9.3.2": "as 9.3.1",
    "9.4.1": "as 9.3.1",
    "9.4.2": "as 9.3.1",
}
"""Cases that fail, and why they may."""

COMPRESSION = ("12.", "13.")
"""Cases of permessage-deflate, which is only negotiated where it was asked for."""

ROUNDS = 5
"""The runner now and then takes the end of a TCP connection for an unclean end although the close frame came before it
(also with plain websockets; `test_a_close_is_always_answered` looks at the bytes). Such cases are run again."""


def kosoku() -> str:
    """The runner's path; skips the test where it is not installed."""
    found = shutil.which("kosoku", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("left out: kosoku is not installed, it has no wheel for this machine")
    return found


async def run_cases(
    include: Iterable[str], exclude: Iterable[str], folder: Path, *, compression: bool = False
) -> Results:
    """How each case went, by id."""
    report = folder / "report"
    command = [kosoku(), "", "-o", str(report), "-p", "2"]
    for case in include:
        command += ["-i", case]
    for case in exclude:
        command += ["-x", case]
    async with echo_server(compression=compression) as url:
        command[1] = url
        done = await trio.run_process(command, check=False, capture_stdout=True, capture_stderr=True)
    index = report / "index.json"
    assert index.is_file(), done.stderr.decode()
    (results,) = json.loads(index.read_text()).values()
    shutil.rmtree(report)
    found: Results = results
    return found


async def failed_cases(
    include: Iterable[str], exclude: Iterable[str], folder: Path, *, compression: bool = False
) -> tuple[int, dict[str, str]]:
    """How many cases were run, and those that did not go as expected, each with what it did."""
    results = await run_cases(include, exclude, folder, compression=compression)
    count = len(results)
    for _ in range(ROUNDS):
        unclean = [case for case, result in results.items() if result["behaviorClose"] == "UNCLEAN"]
        if not unclean:
            break
        results |= await run_cases(unclean, [], folder, compression=compression)
    fine = {case for case, result in results.items() if _is_fine(case, result, compression)}
    return count, {case: _verdict(result) for case, result in results.items() if case not in fine}


def _is_fine(case: str, result: dict[str, Any], compression: bool) -> bool:
    if case in EXPECTED:
        return bool(result["behavior"] == "FAILED")  # one that passes should leave the list
    if case.startswith(COMPRESSION) and not compression:
        return bool(result["behavior"] == "UNIMPLEMENTED")
    fine = ("OK", "NON-STRICT", "INFORMATIONAL")
    return result["behavior"] in fine and result["behaviorClose"] in fine


def _verdict(result: dict[str, Any]) -> str:
    return f"{result['behavior']}, close {result['behaviorClose']} ({result['remoteCloseCode']})"
