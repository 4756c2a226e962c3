"""What tests of the conformance pack share: running its command."""

import json
import subprocess
import sys
from typing import Any

PATIENCE_SECONDS = 300


def conformance(*arguments: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of `turnwire conformance`."""
    done = subprocess.run(
        [sys.executable, "-m", "turnwire", "conformance", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    return done.returncode, done.stdout, done.stderr


def verdicts_of(output: str) -> list[dict[str, Any]]:
    """The verdicts that it printed with `--json`."""
    verdicts: list[dict[str, Any]] = json.loads(output)
    return verdicts
