"""`turnwire` as a person types it: in a process of its own, or, much sooner, in this one."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from harness import PATIENCE_SECONDS
from turnwire.cli import main

Ended = subprocess.CompletedProcess[str]


def turnwire(*arguments: str, stdin: str = "", **environment: str) -> Ended:
    """One command in a process of its own, from start to end."""
    return subprocess.run(
        [sys.executable, "-m", "turnwire", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def turnwire_here(*arguments: str, stdin: str = "", **environment: str) -> Ended:
    """The same from the first argument to the exit code, in this process. Not for `serve`: it takes over signals."""
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(io.StringIO()) as stdout,
        redirect_stderr(io.StringIO()) as stderr,
    ):
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        for name, value in environment.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main(arguments)
    assert isinstance(ended.value.code, int)
    return Ended(list(arguments), ended.value.code, stdout.getvalue(), stderr.getvalue())
