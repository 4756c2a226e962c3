"""Shared fixtures of all tests."""

import gc
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Tests start hundreds of processes. Where Python is told to keep no compiled modules, each would compile them all anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Worlds of tasks come and go, each full of cycles; to look for them after every 700 objects takes a twentieth longer.
gc.set_threshold(20_000, 20, 20)

# How fast this machine is just now is nothing that a test may fail for.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

LOCAL_MODEL = Path(__file__).parent.parent / "server" / "tools" / "local_model.py"
NOT_INSTALLED = 3
"""The tool's exit code when the packages of the local model are missing."""

START_SECONDS = 120
"""A fixture that waits this long for the local model has failed."""


@pytest.fixture(scope="session")
def local_model() -> Iterator[str]:
    """The base URL of a real language model on this machine, for `openai:smollm2`; one for all tests of the run."""
    process = subprocess.Popen(
        [sys.executable, str(LOCAL_MODEL), "host"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
        assert ready, "the local model has not started in time"
        url = process.stdout.readline().strip()
        if not url:
            _, log = process.communicate()
            if process.returncode == NOT_INSTALLED:
                pytest.skip(f"left out, no real model on this machine: {log.strip()}")
            raise AssertionError(f"the local model ended with {process.returncode}:\n{log}")
        yield url
    finally:
        process.kill()
        process.communicate()
