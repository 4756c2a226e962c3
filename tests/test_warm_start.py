"""Forked servers are told from started ones by nothing but how soon they are there."""

import os
import signal
from pathlib import Path

import pytest
import trio

from harness import FROM_NOTHING, server_process, wire_client

PROGRAMS = pytest.mark.parametrize("program", [None, FROM_NOTHING], ids=["forked", "started"])


@PROGRAMS
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
async def test_an_end_is_told_to_all_who_wait_for_it_and_to_who_asks(
    program: tuple[str, ...] | None, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    told: list[int | None] = []
    async with server_process(tmp_path / "t.db", program=program) as server, trio.open_nursery() as nursery:
        process = server.process

        async def wait() -> None:
            told.append(await process.wait())

        async def ask() -> None:
            while process.poll() is None:
                await trio.lowlevel.checkpoint()
            told.append(process.returncode)

        for each in (wait, ask, wait):
            nursery.start_soon(each)
        process.send_signal(number)
    assert told == [code] * 3
    process.send_signal(number)  # to nobody, not even to another process of this number


@PROGRAMS
async def test_a_server_that_cannot_start_is_an_error_with_its_log(
    program: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match="ended before it listened:\nturnwire serve: --titles: expected on or off"):
        async with server_process(tmp_path / "t.db", "--titles", "perhaps", program=program):
            pass


@PROGRAMS
async def test_a_server_has_files_an_environment_and_a_folder_of_its_own(
    program: tuple[str, ...] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server_process(tmp_path / "other.db"):
        monkeypatch.chdir(tmp_path)
        environment = {"TURNWIRE_MAX_SUBSCRIPTIONS": "7"}
        async with server_process(tmp_path / "t.db", environment=environment, program=program) as server:
            place = Path(f"/proc/{server.process.pid}")
            assert os.readlink(place / "cwd") == str(tmp_path)
            opened = [os.readlink(each) for each in (place / "fd").iterdir()]
            assert not [each for each in opened if "other.db" in each]
            async with wire_client(server.url, hello=False) as client:
                assert (await client.request("hello"))["limits"]["max_subscriptions"] == 7
