"""Listening where the system has no room for another connection: wait, say so now and then, serve on (W6)."""

import errno
import logging
import os

import pytest
import trio
from trio.testing import MockClock

from turnwire.gateway.listening import REPORT_SECONDS, PatientListener


class Crowded(trio.abc.Listener[trio.abc.Stream]):
    """Has no room until some moment, then gives `stream`."""

    def __init__(self, until: float, number: int, stream: trio.abc.Stream) -> None:
        self._until = until
        self._number = number
        self._stream = stream
        self.asked_at: list[float] = []

    async def accept(self) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        self.asked_at.append(trio.current_time())
        if trio.current_time() < self._until:
            raise OSError(self._number, os.strerror(self._number))
        return self._stream

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM])
async def test_where_there_is_no_room_it_is_tried_again_and_told_once_a_minute(
    number: int, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    _, stream = trio.testing.memory_stream_pair()
    crowded = Crowded(600, number, stream)
    with caplog.at_level(logging.INFO):
        assert await PatientListener(crowded).accept() is stream
    assert 600 <= trio.current_time() <= 601, "a client that waits is not left waiting for long"
    assert len(crowded.asked_at) < 610, "not a busy loop"
    assert len(caplog.records) == 600 / REPORT_SECONDS
    for record in caplog.records:
        assert record.exc_info is None
        assert os.strerror(number) in record.getMessage()


async def test_other_faults_of_accept_are_raised(autojump_clock: MockClock) -> None:
    _, stream = trio.testing.memory_stream_pair()
    with pytest.raises(OSError, match="Invalid argument"):
        await PatientListener(Crowded(600, errno.EINVAL, stream)).accept()
