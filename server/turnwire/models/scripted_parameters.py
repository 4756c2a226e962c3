"""How a command line of the scripted model is read: parameters with their bounds, and the usage to tell a user."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from turnwire.models.scripted_speech import Move

MAX_SECONDS: Final = 3_600
"""Bound of the arguments that are times, so that a slip of the keyboard does not occupy a server."""


class BadArguments(ValueError):
    """A command's arguments do not fit; the text is a clause for the user."""


class Parameter(Protocol):
    """One argument of a command; `default` None means that it must be given."""

    @property
    def name(self) -> str: ...

    @property
    def default(self) -> int | str | None: ...

    def parse(self, word: str) -> Any:
        """The argument's value. Raises BadArguments."""


@dataclass(frozen=True)
class Integer:
    name: str
    least: int
    most: int
    default: int | None = None

    def parse(self, word: str) -> int:
        if word.isascii() and word.isdigit() and len(word) <= len(str(self.most)):
            value = int(word)
            if self.least <= value <= self.most:
                return value
        raise BadArguments(f"{self.name} is a whole number from {self.least:,} to {self.most:,}")


@dataclass(frozen=True)
class Seconds:
    name: str
    default: None = None

    def parse(self, word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = -1.0
        if not 0 <= value <= MAX_SECONDS:
            raise BadArguments(f"{self.name} is a number from 0 to {MAX_SECONDS:,}")
        return value


@dataclass(frozen=True)
class Choice:
    name: str
    choices: tuple[str, ...]
    default: None = None

    def parse(self, word: str) -> str:
        if word not in self.choices:
            raise BadArguments(f"{self.name} is one of {', '.join(self.choices)}")
        return word


@dataclass(frozen=True)
class Word:
    """One word, whatever it is."""

    name: str
    default: None = None

    def parse(self, word: str) -> str:
        return word


@dataclass(frozen=True)
class Rest:
    """All that is left of the line; only as the last parameter."""

    name: str
    default: str | None = None

    def parse(self, word: str) -> str:
        return word


@dataclass(frozen=True)
class Command:
    """`run` takes the Speech and one value for each parameter.

    `results` tells from the values how many results of tools the command waits for; None where it calls none.
    """

    name: str
    parameters: tuple[Parameter, ...]
    sentence: str
    run: Callable[..., Iterator[Move]]
    results: Callable[..., int] | None = None

    @property
    def usage(self) -> str:
        """How the command is written, such as `/stream N [MS]`."""
        names = [each.name if each.default is None else f"[{each.name}]" for each in self.parameters]
        return " ".join([f"/{self.name}", *names])

    def parse(self, text: str) -> list[Any]:
        """One value for each parameter. Raises BadArguments."""
        takes_rest = bool(self.parameters) and isinstance(self.parameters[-1], Rest)
        words = text.split(maxsplit=len(self.parameters) - 1 if takes_rest else -1)
        if len(words) > len(self.parameters):
            raise BadArguments("there are too many arguments")
        values: list[Any] = []
        for index, parameter in enumerate(self.parameters):
            if index < len(words):
                values.append(parameter.parse(words[index]))
            elif parameter.default is None:
                raise BadArguments(f"{parameter.name} is missing")
            else:
                values.append(parameter.default)
        return values
