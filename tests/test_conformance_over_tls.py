"""The pack against a server behind TLS: all that it does to a connection it does below that, and says why none came."""

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from certificates import Certificate
from conformance_world import verdicts_of
from harness import ServerProcess, server_process


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    certificate = Certificate(tmp_path)
    flags = ("--tls-certificate", str(certificate.certificate), "--tls-key", str(certificate.key))
    # A stall of the pack, on a slow machine, is not to be taken for a dead client.
    others = ("--tick-ms", "2000", "--write-timeout-seconds", "3600")
    async with server_process(tmp_path / "t.db", *flags, *others, scheme="https") as process:
        yield process


async def outcomes(url: str, chosen: str, **environment: str) -> list[tuple[str, str]]:
    done = await trio.run_process(
        [sys.executable, "-m", "turnwire", "conformance", "--server", url, "--only", chosen, "--json"],
        env={**os.environ, **environment},
        capture_stdout=True,
        check=False,
    )
    return [(verdict["outcome"], verdict["reason"]) for verdict in verdicts_of(done.stdout.decode())]


@pytest.mark.parametrize("chosen", ["hello is answered", "health and readiness", "a reset connection", "W6"])
async def test_W2_a_server_behind_tls_passes_as_any_other(server: ServerProcess, chosen: str, tmp_path: Path) -> None:
    trusted = {"SSL_CERT_FILE": str(tmp_path / "certificate.pem")}
    verdicts = await outcomes(f"wss://{server.address}/ws", chosen, **trusted)
    assert verdicts
    assert [reason for outcome, reason in verdicts if outcome != "passed"] == []


@pytest.mark.parametrize("chosen", ["hello is answered", "health and readiness"])
async def test_W2_a_certificate_that_nobody_trusts_is_told_in_a_sentence(server: ServerProcess, chosen: str) -> None:
    ((outcome, reason),) = await outcomes(f"wss://{server.address}/ws", chosen)
    assert outcome == "failed"
    assert "certificate verify failed" in reason
