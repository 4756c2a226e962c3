"""Generated files are what their sources say."""

import subprocess
import sys
from pathlib import Path

GENERATE = Path(__file__).parents[2] / "protocol" / "generate.py"


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_generate_refuses_arguments_that_it_does_not_know() -> None:
    done = subprocess.run([sys.executable, str(GENERATE), "--chek"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "--check" in done.stderr
