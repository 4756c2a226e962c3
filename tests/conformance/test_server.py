"""Our server passes the whole pack, played by the command line as anybody would play it."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from command_line import turnwire_here
from conformance_world import conformance, conformances, verdicts_of
from harness import server_process

SERVE = f"{sys.executable} -m turnwire serve --port {{port}} --data {{data}} --tick-ms 2000 --grace-seconds 10"
# A timeline speaks while the server stops; on a slow machine a short grace would be over before.
SERVE += " --write-timeout-seconds 3600"  # a stall of the pack, on a slow machine, is not to be taken for a dead client


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "turnwire.key"
    path.write_text("a secret that nobody can guess, really")
    return path


def not_passed(output: str) -> list[str]:
    return [f"{each['name']}: {each['reason']}" for each in verdicts_of(output) if each["outcome"] != "passed"]


@pytest.mark.slow
async def test_W1_X3_our_server_passes_every_timeline_and_those_about_tokens_and_grants_with_a_key(key: Path) -> None:
    (code, output, complaints), with_key = await conformances(
        ("--server-command", f"{SERVE} --workspace {{folder}}", "--json"),
        (
            *("--server-command", f"{SERVE} --key-file {key}", "--key-file", str(key)),
            *("--only", "server/tokens", "--json"),
        ),
    )
    assert complaints == ""
    assert [reason for reason in not_passed(output) if "needs --key-file" not in reason] == []
    assert code == 0
    code, output, complaints = with_key
    assert (code, complaints, not_passed(output)) == (0, "", [])
    assert len(verdicts_of(output)) >= 8


def test_X3_a_server_that_takes_no_token_of_the_key_fails_all_that_want_one_taken(key: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.key"
    other.write_text("another secret that nobody can guess")
    arguments = ("--server-command", f"{SERVE} --key-file {key}", "--only", "X3", "--json")
    code, output, complaints = conformance(*arguments, "--key-file", str(other))
    assert (code, complaints) == (1, "")
    assert [verdict["name"] for verdict in verdicts_of(output) if verdict["outcome"] != "failed"] == [
        "a token that has ended, or is none, is refused and the connection closed with 4401",
        "a token that was made for another server is refused",
    ]


@pytest.mark.parametrize(
    ("chosen", "reason"), [("A4", "--server-command"), ("P7", "--has workspace"), ("L1", "--key-file")]
)
async def test_what_a_running_server_cannot_be_asked_is_left_out_with_the_reason(
    chosen: str, reason: str, tmp_path: Path
) -> None:
    async with server_process(tmp_path / "data.db") as server:
        arguments = ("--server", server.url, "--only", chosen, "--json")
        code, output, complaints = await trio.to_thread.run_sync(conformance, *arguments)
    assert (code, complaints) == (0, "")
    verdicts = verdicts_of(output)
    assert Counter(verdict["outcome"] for verdict in verdicts).keys() == {"passed", "left out"}
    assert all(reason in verdict["reason"] for verdict in verdicts if verdict["outcome"] == "left out")


def test_wrong_usage_is_said_in_a_sentence() -> None:
    for arguments in ((), ("--server", "http://x"), ("--server", "ws://127.0.0.1:9/ws", "--only", "no such timeline")):
        ended = turnwire_here("conformance", *arguments)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("turnwire conformance: ")
        assert "Traceback" not in ended.stderr


def test_a_server_that_nobody_finds_fails_and_is_told_so(tmp_path: Path) -> None:
    code, output, _ = conformance("--server", "ws://127.0.0.1:9/ws", "--only", "hello is answered by a welcome")
    assert code == 1
    assert "failed" in output
    assert "1 failed" in output.splitlines()[-1]
