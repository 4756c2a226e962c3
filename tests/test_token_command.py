"""`turnwire token` as a person types it: keys from files, tokens on standard input and output, nothing in between."""

import subprocess
from pathlib import Path

import jwt
import pytest

from command_line import turnwire, turnwire_here

SECRET = "a secret that nobody can guess, really"


@pytest.fixture
def key(tmp_path: Path) -> str:
    path = tmp_path / "turnwire.key"
    path.write_text(SECRET + "\n")
    return str(path)


def test_X2_a_token_that_was_created_is_good_and_says_what_was_asked(key: str) -> None:
    created = turnwire(
        *("token", "create", "--key-file", key, "--sub", "ada", "--role", "user", "--role", "team"),
        *("--grant", "s1=viewer", "--grant", "*=editor", "--lifetime", "60"),
    )
    assert (created.returncode, created.stderr) == (0, "")
    claims = jwt.decode(created.stdout.strip(), SECRET, algorithms=["HS256"])
    assert claims["exp"] - claims["iat"] == 60
    checked = turnwire("token", "check", stdin=created.stdout, TURNWIRE_KEY_FILE=key)
    assert checked.returncode == 0
    for part in ('"ada"', '"team"', '"s1": "viewer"', '"*": "editor"'):
        assert part in checked.stdout
    assert SECRET not in checked.stdout + checked.stderr


def test_X3_a_token_that_is_not_good_is_a_sentence_and_exit_code_1(key: str) -> None:
    for token in ("nonsense", jwt.encode({"sub": "ada", "exp": 1}, SECRET, "HS256")):
        checked = turnwire_here("token", "check", "--key-file", key, stdin=token)
        assert (checked.returncode, checked.stdout) == (1, "")
        assert checked.stderr.startswith("turnwire token check: ")
        assert token not in checked.stderr


def test_X3_a_token_is_good_for_the_audience_that_it_was_made_for(key: str) -> None:
    here = turnwire_here("token", "create", "--key-file", key, "--sub", "ada", "--audience", "chat").stdout
    anywhere = turnwire_here("token", "create", "--key-file", key, "--sub", "ada").stdout
    checked = turnwire_here("token", "check", "--key-file", key, "--audience", "chat", stdin=here)
    assert '"aud": "chat"' in checked.stdout
    assert turnwire_here("token", "check", "--key-file", key, stdin=here, TURNWIRE_AUDIENCE="chat").returncode == 0
    for token, audience in ((here, []), (here, ["--audience", "other"]), (anywhere, ["--audience", "chat"])):
        checked = turnwire_here("token", "check", "--key-file", key, *audience, stdin=token)
        assert (checked.returncode, checked.stdout) == (1, "")
        assert "another audience" in checked.stderr
    too_long = turnwire_here("token", "create", "--key-file", key, "--sub", "ada", "--audience", "x" * 201)
    assert (too_long.returncode, too_long.stdout) == (2, "")
    assert "aud" in too_long.stderr


def test_keys_of_a_pair_are_made_as_the_help_says(tmp_path: Path) -> None:
    private, public = str(tmp_path / "turnwire.pem"), str(tmp_path / "turnwire.pub")
    try:
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    created = turnwire_here("token", "create", "--key-file", private, "--sub", "ada")
    assert jwt.get_unverified_header(created.stdout.strip())["alg"] == "EdDSA"
    assert turnwire_here("token", "check", "--key-file", public, stdin=created.stdout).returncode == 0
    refused = turnwire_here("token", "create", "--key-file", public, "--sub", "ada")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "public key can only check" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["create", "--sub", "ada"], "--key-file"),
        (["check"], "TURNWIRE_KEY_FILE"),
        (["check", "--key-file", "/nowhere"], "--key-file"),
        (["create", "--key-file", "KEY", "--sub", "ada", "--lifetime", "0"], "--lifetime"),
        (["create", "--key-file", "KEY", "--sub", "ada", "--lifetime", "soon"], "--lifetime"),
        (["create", "--key-file", "KEY", "--sub", "ada", "--grant", "s1"], "--grant"),
        (["create", "--key-file", "KEY", "--sub", "ada", "--grant", "s1=admin"], "--grant"),
        (["create", "--key-file", "KEY", "--sub", "ada", "--grant", "=owner"], "--grant"),
        (["create", "--key-file", "KEY", "--sub", ""], "sub"),
        (["create", "--key-file", "KEY"], "--sub"),
        (["create", "--key", SECRET, "--sub", "ada"], "--key"),
        ([], "ACTION"),
    ],
)
def test_wrong_arguments_are_a_sentence_that_names_them_and_exit_code_2(
    arguments: list[str], named: str, key: str
) -> None:
    answer = turnwire_here("token", *(key if argument == "KEY" else argument for argument in arguments))
    assert (answer.returncode, answer.stdout) == (2, "")
    assert named in answer.stderr
    assert "Traceback" not in answer.stderr
