"""The scripted model: deterministic and offline, the demo's embedded default and the tests' way to cause faults.

It obeys the newest user message: each line that begins with a slash is a command, and they are played in order; other
lines are then ignored. A message without commands gets a short friendly answer. Nothing is ever wrong with a prompt:
like any model, it answers a mistake with a sentence.

A command that calls tools ends the Step. The next call finds the results in its history, after the newest user message:
it counts them, and goes on after the last command whose results are all there (or within it, for one of many Steps).
Where no command is left, it says a sentence about the results.

Titles and summaries are made of the first words that the user said in the conversation that they are asked for.

What each command does stands in `scripted_commands` and `scripted_tools`. Exact timelines and broken streams for tests
are `timeline`.
"""

from collections.abc import AsyncGenerator, Iterator

import trio

from turnwire.models.base import ModelEvent, ModelRequest, TextContent, ToolResultContent
from turnwire.models.scripted_commands import COMMANDS
from turnwire.models.scripted_parameters import BadArguments
from turnwire.models.scripted_speech import Cut, Move, Pause, Speech
from turnwire.models.scripted_texts import about_results, greeting, summary_of, title_of

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
    if request.kind != "turn":
        speech = Speech(request)
        yield from speech.say([about_conversation(request)], 0)
        yield speech.end()
        return
    prompt = newest_prompt(request)
    commands = [line for line in prompt if line.startswith("/")]
    results = newest_results(request)
    rest, answered = _unplayed(commands, len(results))
    speech = Speech(request, answered)
    if not commands:
        yield from speech.words(greeting("\n".join(prompt), _count_prompts(request)))
    elif not rest:
        yield from speech.words(about_results(results))
    for line in rest:
        yield from _obey(speech, line)
        if speech.called:
            break
    yield speech.end()


def newest_prompt(request: ModelRequest) -> list[str]:
    """The lines of the newest user message, without the space around them; a text never continues another's line."""
    for message in reversed(request.messages):
        if message.role == "user":
            texts = [part.text for part in message.content if isinstance(part, TextContent)]
            return [line.strip() for text in texts for line in text.split("\n")]
    return []


def about_conversation(request: ModelRequest) -> str:
    """The title or the summary that is asked for, made of what the user said in the conversation that is told."""
    told = "\n".join(newest_prompt(request))
    return title_of(told) if request.kind == "title" else summary_of(told)


def newest_results(request: ModelRequest) -> list[ToolResultContent]:
    """The results of tools that came after the newest user message, in order."""
    newest: list[tuple[ToolResultContent, ...]] = []
    for message in reversed(request.messages):
        if message.role == "user":
            break
        newest.append(tuple(part for part in message.content if isinstance(part, ToolResultContent)))
    return [result for results in reversed(newest) for result in results]


def _unplayed(commands: list[str], results: int) -> tuple[list[str], int]:
    """The commands still to be played, and how many results the first of them that calls tools has already."""
    start = 0
    for index, line in enumerate(commands):
        needed = _results_needed(line)
        if needed > results:
            return (commands[index:], results) if results else (commands[start:], 0)
        if needed:
            results -= needed
            start = index + 1
    return commands[start:], 0


def _results_needed(line: str) -> int:
    name, _, rest = line[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None or command.results is None:
        return 0
    try:
        return command.results(*command.parse(rest))
    except BadArguments:
        return 0


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
