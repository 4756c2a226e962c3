"""The scripted model: deterministic and offline, the demo's embedded default and the tests' way to cause faults.

It obeys the newest user message: each line that begins with a slash is a command, and they are played in order within
one model call; other lines are then ignored. A message without commands gets a short friendly answer. Nothing is ever
wrong with a prompt: like any model, it answers a mistake with a sentence.

What each command does stands in `scripted_commands`. Exact timelines and broken streams for tests are `timeline`.
"""

from collections.abc import AsyncGenerator, Iterator

import trio

from turnwire.models.base import ModelEvent, ModelRequest, StepEnd, TextContent, Usage
from turnwire.models.scripted_commands import COMMANDS, BadArguments, Cut, Move, Pause, Speech
from turnwire.models.scripted_texts import greeting

NAME_CHARACTERS = 32
"""How much of an unknown command's name is repeated to the user."""


class ScriptedProvider:
    """Plays commands and canned answers (see the module); one object serves any number of calls at once."""

    name = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """One answer. There is a checkpoint before every event, so that even the fastest answer can be cancelled.

        Pauses count from the start of the call, not from the reader's last step: a slow reader does not stretch them.
        """
        due = trio.current_time()
        for move in play(request):
            if isinstance(move, Pause):
                due += move.seconds
                await trio.sleep_until(due)
            elif isinstance(move, Cut):
                return
            else:
                await trio.lowlevel.checkpoint()
                yield move

    async def aclose(self) -> None:
        """Nothing is kept between calls."""


def play(request: ModelRequest) -> Iterator[Move]:
    """All moves of one answer, without a clock. Raises ModelError where a command says so."""
    speech = Speech(request)
    prompt = newest_prompt(request)
    commands = [line for line in prompt if line.startswith("/")]
    if commands:
        for line in commands:
            yield from _obey(speech, line)
    else:
        yield from speech.words(greeting("\n".join(prompt), _count_prompts(request)))
    usage = Usage(input_tokens=_count_words(request), output_tokens=speech.deltas)
    yield StepEnd(blocks=tuple(range(speech.blocks)), usage=usage)


def newest_prompt(request: ModelRequest) -> list[str]:
    """The lines of the newest user message, without the space around them; a text never continues another's line."""
    for message in reversed(request.messages):
        if message.role == "user":
            texts = [part.text for part in message.content if isinstance(part, TextContent)]
            return [line.strip() for text in texts for line in text.split("\n")]
    return []


def _obey(speech: Speech, line: str) -> Iterator[Move]:
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        shown = name[:NAME_CHARACTERS].replace("`", "")
        return speech.words(f"I do not know the command `/{shown}`. `/help` lists what I can play.\n")
    try:
        values = command.parse(rest)
    except BadArguments as error:
        return speech.words(f"I cannot play `/{name}`: {error}. Usage: `{command.usage}` - {command.sentence}\n")
    return command.run(speech, *values)


def _count_prompts(request: ModelRequest) -> int:
    return sum(message.role == "user" for message in request.messages)


def _count_words(request: ModelRequest) -> int:
    return sum(len(message.text.split()) for message in request.messages)
