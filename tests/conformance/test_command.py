"""The command: what its arguments mean, and what it says of those that are wrong."""

import json
import sys
from pathlib import Path

import pytest
from trio.testing import MockClock

from conformance_world import conformance, conformances, verdicts_of
from turnwire.cli import main
from turnwire.conformance.arguments import TOKEN_VARIABLE
from turnwire.conformance.processes import CommandServer, ServerEnded
from turnwire.conformance.signer import Signer
from turnwire.gateway.tokens import read_key

SERVE = f"{sys.executable} -m turnwire serve --port {{port}} --data {{data}}"


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "turnwire.key"
    path.write_text("a secret that nobody can guess, really")
    return path


async def test_X3_tokens_are_made_for_the_audience_of_the_server(key: Path) -> None:
    command = f"{SERVE} --key-file {key} --audience chat"
    arguments = ("--server-command", command, "--key-file", str(key), "--only", "in the header", "--json")
    ended = await conformances(*((*arguments, "--audience", audience) for audience in ("chat", "another")))
    assert [complaints for _, _, complaints in ended] == ["", ""]
    assert [[verdict["outcome"] for verdict in verdicts_of(output)] for _, output, _ in ended] == [
        ["passed"],
        ["failed"],
    ]


@pytest.mark.parametrize("place", ["argument", "environment", "nowhere"])
def test_X3_a_token_is_given_by_argument_or_environment(place: str, key: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = Signer(read_key(key)).token("tester", 600)
    if place == "environment":
        monkeypatch.setenv(TOKEN_VARIABLE, token)
    given = ("--token", token) if place == "argument" else ()
    arguments = ("--server-command", f"{SERVE} --key-file {key}", "--only", "is created, read, listed", "--json")
    _, output, _ = conformance(*arguments, *given)
    passed = [verdict["outcome"] == "passed" for verdict in verdicts_of(output)]
    assert passed == [place != "nowhere"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--server", "ws://127.0.0.1:9/ws", "--audience", "chat"), "--key-file"),
        (("--server-command", ""), "--server-command"),
        (("--server", "ws://127.0.0.1:9/ws", "--jobs", "0"), "--jobs"),
        (("--server", "ws://127.0.0.1:no/ws"), "--server"),
    ],
)
def test_wrong_arguments_are_named(
    arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["conformance", *arguments])
    said = capsys.readouterr()
    assert (exited.value.code, said.out) == (2, "")
    assert sentence in said.err


async def test_W8_a_command_that_never_listens_is_given_up(autojump_clock: MockClock, tmp_path: Path) -> None:
    idle = f"{sys.executable} -c 'import time; time.sleep(1000)'"
    server = CommandServer(idle, tmp_path / "home")
    try:
        with pytest.raises(ServerEnded, match="listens on port"):
            await server.start()
    finally:
        await server.kill()


async def test_W8_only_what_the_pack_fills_in_is_replaced_in_a_command(tmp_path: Path) -> None:
    place = tmp_path / "told"
    tell = f"import json, pathlib, sys; pathlib.Path({str(place)!r}).write_text(json.dumps(sys.argv[1:]))"
    server = CommandServer(f'{sys.executable} -c "{tell}" {{port}} {{x}} {{}}', tmp_path / "home")
    with pytest.raises(ServerEnded, match="ended with 0"):
        await server.start()
    port, *others = json.loads(place.read_text())
    assert port.isdecimal()
    assert others == ["{x}", "{}"]
