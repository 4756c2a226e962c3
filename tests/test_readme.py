"""The README's examples are true: its dialogue by hand and its program are executed."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import trio

from harness import PATIENCE_SECONDS, server_process, texts, wire_client

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
CLIENT = Path(sys.executable).with_name("websockets")
FRAME = re.compile(r"< (\{.*\})")
"""A received frame in the output of the command-line client, which also moves the cursor about."""


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return str(found)


def pattern(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(piece) for piece in line.split("…")))


class CommandLineClient:
    """The client as a person sees it: lines typed, frames shown."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._text = ""
        self._taken = 0

    async def type(self, line: str) -> None:
        await self._input.send_all(line.encode() + b"\n")

    async def expect(self, lines: list[str]) -> None:
        """The next frames that are shown, which are these in some order: an answer may overtake Mutations.

        Deltas, which the dialogue leaves out, are passed over.
        """
        wanted = [pattern(line) for line in lines]
        with trio.fail_after(PATIENCE_SECONDS):
            while wanted:
                frame = await self._next()
                found = next((each for each in wanted if each.fullmatch(frame)), None)
                if found is not None:
                    wanted.remove(found)
                else:
                    assert '"variant":"delta"' in frame, f"got {frame}\nwanted one of {wanted}"

    async def _next(self) -> str:
        while len(frames := FRAME.findall(self._text)) <= self._taken:
            chunk = await self._output.receive_some()
            assert chunk, "the client ended"
            self._text += bytes(chunk).decode()
        self._taken += 1
        return str(frames[self._taken - 1])


def exchanges(lines: list[str]) -> list[tuple[str, list[str]]]:
    """What is typed, with what is then shown."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("> "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line.removeprefix("< "))
    return found


async def test_the_dialogue_by_hand_goes_as_the_readme_says(tmp_path: Path) -> None:
    dialogue = exchanges(block("wire").splitlines())
    assert len(dialogue) >= 5
    async with server_process(tmp_path / "t.db") as server:
        process = await trio.lowlevel.open_process(
            [str(CLIENT), server.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        client = CommandLineClient(process)
        try:
            for typed, shown in dialogue:
                await client.type(typed)
                await client.expect(shown)
        finally:
            process.kill()
            await process.wait()
            assert process.stdin is not None
            assert process.stdout is not None
            await process.stdin.aclose()
            await process.stdout.aclose()


def test_the_program_in_the_readme_runs(tmp_path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", block("python")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert "TurnStart" in answer.stdout
    assert "status='completed'" in answer.stdout
    assert answer.stdout.rstrip().endswith("3")


async def test_the_server_with_tools_and_a_model_of_its_own_answers(tmp_path: Path) -> None:
    example = block("python server")
    code = [line for line in example.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(code) <= 20
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert example.count(".serve)") == 1
    script = tmp_path / "example.py"
    script.write_text(example.replace(".serve)", f".serve, '127.0.0.1', {port})"))
    process = await trio.lowlevel.open_process([sys.executable, str(script)], cwd=tmp_path)
    try:
        await listening(port)
        async with wire_client(f"ws://127.0.0.1:{port}/ws") as client:
            session_id = (await client.request("session.create"))["session"]["session_id"]
            view = await client.subscribe(session_id)
            receipt = await client.request("prompt", session_id=session_id, text="hello", client_request_id="r")
            await client.turn_finished(receipt["turn_id"])
            assert texts(view.messages[-1]) == "HELLO"
    finally:
        process.kill()
        await process.wait()


async def listening(port: int) -> None:
    """Until somebody listens on the port."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            try:
                stream = await trio.open_tcp_stream("127.0.0.1", port)
            except OSError:
                await trio.sleep(0.05)
            else:
                await stream.aclose()
                return


async def test_the_fifteen_lines_in_the_readme_show_an_answer(tmp_path: Path) -> None:
    example = block("js")
    assert len(example.splitlines()) <= 15
    package = ROOT / "clients" / "js"
    assert (package / "dist").is_dir(), "the JavaScript client is not built: make install"
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "turnwire").symlink_to(package)
    async with server_process(tmp_path / "t.db") as server:
        script = tmp_path / "example.mjs"
        script.write_text(example.replace("127.0.0.1:8787", server.address))
        process = await trio.lowlevel.open_process(
            ["node", "--experimental-websocket", "--no-warnings", str(script)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        text = ""
        try:
            with trio.fail_after(PATIENCE_SECONDS):
                while " w20 " not in text:
                    chunk = await process.stdout.receive_some()
                    assert chunk, f"the example ended early: {text}"
                    text += bytes(chunk).decode()
        finally:
            process.kill()
            await process.wait()
            await process.stdout.aclose()
        assert "live user /stream 20" in text
        assert "live agent w1 w2 " in text
