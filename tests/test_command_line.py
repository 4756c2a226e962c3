"""The command line as a person types it: help, versions, and wrong values that name the flag."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs
from websockets.exceptions import InvalidStatus

from command_line import turnwire, turnwire_here
from harness import FROM_NOTHING, Refused, server_process, wire_client
from turnwire.flags import FLAGS
from turnwire.gateway import GatewaySettings
from turnwire.gateway.rates import Addresses
from turnwire.gateway.settings import LOOPBACK_NETWORKS
from turnwire.settings import SettingError, settings_from


def test_help_names_every_flag_its_variable_and_examples() -> None:
    answer = turnwire_here("serve", "--help")
    assert answer.returncode == 0
    for flag in FLAGS:
        assert f"--{flag.name}" in answer.stdout
        assert flag.variable in "".join(answer.stdout.split())
    assert "examples:" in answer.stdout


def test_version_and_schema_are_printed() -> None:
    assert turnwire("version").stdout.startswith("turnwire 0.")
    assert json.loads(turnwire_here("schema").stdout)["$id"] == "urn:turnwire:v1"


def test_a_start_does_not_pay_for_what_it_may_not_need() -> None:
    """Most servers have no key, no certificate, no metrics and no model of a service, and none plays the pack."""
    program = "import sys, turnwire.cli; print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(answer.stdout.split())
    assert {"turnwire.gateway.tokens", "turnwire.settings", "turnwire.conformance.arguments"} <= loaded
    assert not loaded & {"jwt", "cryptography", "prometheus_client", "httpx2", "openai", "anthropic"}
    assert not loaded & {"turnwire.conformance.command", "turnwire_protocol.timelines"}


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_model_without_its_key_is_a_sentence_and_exit_code_2(kind: str, tmp_path: Path) -> None:
    nothing = {f"{kind.upper()}_{name}": "" for name in ("API_KEY", "BASE_URL")}
    answer = turnwire("serve", "--model", f"{kind}:m", "--data", str(tmp_path / "t.db"), **nothing)
    assert answer.returncode == 2
    assert f"{kind.upper()}_API_KEY" in answer.stderr
    assert "Traceback" not in answer.stderr


WRONG = [
    ("port", "eighty"),
    ("port", "70000"),
    ("host", "0.0.0.0"),
    ("host", "example.org"),
    ("host", "no host"),
    ("key-file", "/nowhere/key"),
    ("key-file", "/dev/null"),
    ("audience", ""),
    ("audience", "alone"),
    ("tls-certificate", "/nowhere/certificate"),
    ("tls-certificate", "/dev/null"),
    ("tls-key", "/nowhere/key"),
    ("tls-key", "/dev/null"),
    ("allowed-hosts", "a.example,b.example:80"),
    ("allowed-hosts", "https://a.example"),
    ("allowed-origins", "a.example"),
    ("allowed-origins", "https://a.example/path"),
    ("model", "gpt"),
    ("model", "openai:"),
    ("model", "anthropic"),
    ("model", "anthropic: "),
    ("base-url", "localhost:1"),
    ("data", "/nowhere/at/all/t.db"),
    ("data", "."),
    ("workspace", "/nowhere"),
    ("context-window-tokens", "999"),
    ("titles", "yes"),
    ("compression", "deflate"),
    ("max-request-bytes", "1000"),
    ("max-subscriptions", "0"),
    ("requests-per-second", "fast"),
    ("requests-per-second", "0"),
    ("request-burst", "-1"),
    ("principal-requests-per-second", "nan"),
    ("principal-request-burst", "1.5"),
    ("max-connections", "0"),
    ("max-connections-per-address", "many"),
    ("max-connections-per-principal", "0"),
    ("max-sessions-per-principal", "0"),
    ("uncounted-networks", "proxy.example"),
    ("uncounted-networks", "10.1.0.0/16, 10.2.0.1/16"),
    ("grace-seconds", "soon"),
    ("grace-seconds", "nan"),
    ("tick-ms", "0"),
    ("log-level", "loud"),
    ("log-format", "xml"),
    ("close-seconds", "-1"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_names_the_flag_or_the_variable(name: str, value: str) -> None:
    (flag,) = [flag for flag in FLAGS if flag.name == name]
    with pytest.raises(SettingError, match=f"^--{name}: "):
        settings_from({flag.field: value}, {})
    with pytest.raises(SettingError, match=f"^{flag.variable}: "):
        settings_from({}, {flag.variable: value})
    if flag.default is not None:
        settings_from({flag.field: flag.default}, {flag.variable: value})  # a flag wins over a variable


def test_the_defaults_of_the_flags_are_those_of_a_program_that_embeds_the_server() -> None:
    assert settings_from({}, {}).gateway() == GatewaySettings()


GATEWAY: dict[str, tuple[str, str, object]] = {
    "host": ("::1", "host", "::1"),
    "port": ("1", "port", 1),
    "allowed-hosts": ("a.example, b.example", "allowed_hosts", ("a.example", "b.example")),
    "allowed-origins": ("https://a.example", "allowed_origins", ("https://a.example",)),
    "close-seconds": ("1.5", "close_timeout_s", 1.5),
    "tick-ms": ("60", "tick_ms", 60),
    "write-timeout-seconds": ("2.5", "write_timeout_s", 2.5),
    "max-request-bytes": ("40000", "max_request_bytes", 40_000),
    "max-subscriptions": ("2", "max_subscriptions", 2),
    "requests-per-second": ("0.5", "requests_per_s", 0.5),
    "request-burst": ("3", "request_burst", 3),
    "principal-requests-per-second": ("1.5", "principal_requests_per_s", 1.5),
    "principal-request-burst": ("4", "principal_request_burst", 4),
    "max-connections": ("5", "max_connections", 5),
    "max-connections-per-address": ("6", "max_connections_per_address", 6),
    "max-connections-per-principal": ("7", "max_connections_per_principal", 7),
    "max-sessions-per-principal": ("8", "max_sessions_per_principal", 8),
    "uncounted-networks": ("10.1.0.0/16", "uncounted_networks", (*LOOPBACK_NETWORKS, "10.1.0.0/16")),
    "compression": ("on", "compression", True),
}
"""Flags that a gateway is told: a value, and what of its settings it changes to what."""

OTHERS = {
    *("key-file", "audience", "tls-certificate", "tls-key", "data", "model", "base-url", "workspace", "titles"),
    *("context-window-tokens", "grace-seconds", "metrics-host", "metrics-port", "log-level", "log-format"),
}


def test_every_flag_is_known_to_concern_the_gateway_or_not() -> None:
    assert {flag.name for flag in FLAGS} == GATEWAY.keys() | OTHERS


@pytest.mark.parametrize("name", GATEWAY)
def test_a_flag_of_the_gateway_changes_its_setting_and_no_other(name: str, tmp_path: Path) -> None:
    text, field, value = GATEWAY[name]
    key = tmp_path / "key"
    key.write_text("a secret that nobody can guess, really")
    (flag,) = [flag for flag in FLAGS if flag.name == name]
    told = settings_from({flag.field: text, "key_file": str(key)}, {}).gateway()
    assert told == structs.replace(GatewaySettings(), **{field: value})


LIMITS = {
    "max-request-bytes": "max_request",
    "max-subscriptions": "max_subscriptions",
    "requests-per-second": "requests_per_s",
    "request-burst": "request_burst",
    "principal-requests-per-second": "principal_requests_per_s",
    "principal-request-burst": "principal_request_burst",
    "max-connections": "max_connections",
    "max-connections-per-address": "max_connections_per_address",
    "max-connections-per-principal": "max_connections_per_principal",
    "max-sessions-per-principal": "max_sessions_per_principal",
}
"""The flags that are limits, and the fields of `welcome` that tell them."""


async def test_W3_the_limits_of_the_flags_are_told_to_clients(tmp_path: Path) -> None:
    flags = {name: str(70_000 + number) for number, name in enumerate(LIMITS)}
    pairs = [part for name, value in flags.items() for part in (f"--{name}", value)]
    async with server_process(tmp_path / "t.db", *pairs) as server, wire_client(server.url, hello=False) as client:
        told = (await client.request("hello"))["limits"]
        assert {name: told[field] for name, field in LIMITS.items()} == {name: int(flags[name]) for name in flags}


def test_W9_proxies_are_not_counted_by_address_besides_this_machine() -> None:
    given = settings_from({"uncounted_networks": "10.1.0.0/16, fd00::/8"}, {}).gateway()
    addresses = Addresses(given.uncounted_networks)
    assert [addresses.key_of(each) for each in ("10.1.2.3", "fd00::1", "127.0.0.1", "::1")] == [None] * 4
    assert addresses.key_of("10.2.0.1") is not None


async def test_W9_a_limit_of_a_flag_is_kept(tmp_path: Path) -> None:
    flags = ("--max-connections", "1", "--max-subscriptions", "1")
    async with server_process(tmp_path / "t.db", *flags) as server, wire_client(server.url) as client:
        for name in ("s1", "s2"):
            await client.request("session.create", session_id=name)
        await client.subscribe("s1")
        with pytest.raises(Refused, match="conflict"):
            await client.subscribe("s2")
        with pytest.raises(InvalidStatus):
            async with wire_client(server.url):
                pass


def test_a_wrong_value_ends_with_exit_code_2() -> None:
    answer = turnwire("serve", "--port", "eighty")
    assert answer.returncode == 2
    assert answer.stderr == "turnwire serve: --port: expected an integer from 0 to 65535, got 'eighty'\n"
    assert turnwire("serve", TURNWIRE_PORT="-1").returncode == 2
    assert turnwire_here("serve", "--no-such-flag").returncode == 2
    assert turnwire_here().returncode == 2


@pytest.mark.parametrize("seconds", ["soon", "nan", "-1", "0"])
def test_a_time_that_no_step_can_have_is_a_sentence_and_exit_code_2(seconds: str) -> None:
    answer = turnwire("conformance", "--server", "ws://127.0.0.1:9/ws", "--only", "W3", "--seconds", seconds)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "--seconds" in answer.stderr
    assert "Traceback" not in answer.stderr


async def test_D2_a_second_server_on_the_same_file_refuses_to_start_and_names_the_first(tmp_path: Path) -> None:
    async with server_process(tmp_path / "t.db") as server:
        answer = turnwire("serve", "--port", "0", "--data", str(tmp_path / "t.db"))
        assert answer.returncode == 1
        assert str(server.process.pid) in answer.stderr
        assert "Traceback" not in answer.stderr


async def test_an_address_in_use_is_a_sentence_and_exit_code_1(tmp_path: Path) -> None:
    async with server_process(tmp_path / "t.db") as server:
        answer = turnwire("serve", "--port", str(server.port), "--data", str(tmp_path / "u.db"))
        assert answer.returncode == 1
        assert "Traceback" not in answer.stderr
        assert "in use" in answer.stderr


async def test_W8_sigterm_announces_stops_turns_with_a_stored_reason_and_closes_1012(tmp_path: Path) -> None:
    """K5: a deploy leaves a sign, and exit code 0."""
    async with (
        server_process(tmp_path / "t.db", "--grace-seconds", "0.2", program=FROM_NOTHING) as server,
        wire_client(server.url) as client,
    ):
        session_id = (await client.request("session.create"))["session"]["session_id"]
        view = await client.subscribe(session_id)
        await client.request("prompt", session_id=session_id, text="/stream 100000 5", client_request_id="r1")
        await client.until(lambda: len(view.messages) == 2)
        server.process.send_signal(signal.SIGTERM)
        await client.until(lambda: client.closed is not None)
        assert client.closed == (1012, "the server restarts")
        (draining,) = [frame for frame in client.frames if frame["op"] == "draining"]
        assert draining["retry_after_ms"] >= 0
        assert view.turn is None
        assert view.messages[-1]["parts"][-1]["code"] == "server_shutdown"
        assert await server.process.wait() == 0
    async with server_process(tmp_path / "t.db") as server, wire_client(server.url) as client:
        page = await client.request("messages", session_id=session_id)
        assert page["items"] == view.messages
