"""Users: what they ask of a Session, in what order and at what bad moment, and what they were told.

Every request gets an answer that is allowed at that moment; what the answers promise is checked once all is at rest.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import trio
from msgspec import UNSET, Struct

from simulation.faulty_store import SimulatedBug
from simulation.forks import Forks
from simulation.tabs import SESSION, Tab
from simulation.world import World
from turnwire.sessions.turns import TurnResult
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ConfigChange, PendingInteraction, Receipt
from turnwire_protocol.messages import ApprovalMode, UserMessage
from turnwire_protocol.parts import TextInput

ANSWER_SECONDS = 300.0
"""No request waits longer than this, whatever model, tools and store do."""


class Asked(Struct):
    """One `client_request_id`: the body that it is meant for, and the receipts it got."""

    request_id: str
    text: str
    receipts: list[Receipt]


class Instructed(Struct):
    """What the server's program told the model, and what it was given for it."""

    text: str
    message: UserMessage | None = None


class Answered(Struct):
    """One answer to an Interaction that was accepted."""

    interaction_id: str
    by: str
    response: dict[str, Any]


class Users:
    """All users of one run."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self.asked: list[Asked] = []
        self.instructed: list[Instructed] = []
        self.answered: list[Answered] = []
        self.results: list[TurnResult] = []
        """What code in the server's own process was told of its Turns."""
        self.forks = Forks(world, random)
        self.archived = False
        """Whether anybody was told that the Session was."""
        self._cards: dict[str, PendingInteraction] = {}
        self._turns: list[str] = []

    def start(self, name: str, request: Callable[[], Awaitable[object]], *, patience: float | None = None) -> None:
        """Sends a request in a task of its own; with `patience`, in seconds, the user may go away before the answer."""
        self._world.requests.start_soon(self._send, name, request, patience)

    async def _send(self, name: str, request: Callable[[], Awaitable[object]], patience: float | None) -> None:
        journal = self._world.journal
        with trio.move_on_after(ANSWER_SECONDS if patience is None else patience) as scope:
            try:
                answer = await request()
                journal.note(f"{name} -> {answer}")
            except RequestError as error:
                journal.note(f"{name} -> {error.code}: {error.message}")
                fits = error.code != "internal" or self._excused(error)
                journal.require(fits, "W9", f"{name} met a fault of the server")
            except SimulatedBug:
                journal.note(f"{name} -> the simulated bug")
            except Exception as error:  # noqa: BLE001 - whatever it is, the trace is wanted with it
                journal.require(False, "W9", f"{name} -> {error!r}")
        if scope.cancelled_caught:
            journal.note(f"{name} -> loses patience")
            journal.require(patience is not None, "T3", f"{name} was not answered within {ANSWER_SECONDS:g} s")

    def _excused(self, error: RequestError) -> bool:
        """Whether the answer is that of a request that met the simulated bug."""
        return error.code == "internal" and self._world.committed.met_a_bug

    # -------------------------------------------------------------------------------------------------------- prompts

    def will_ask(self, request_id: str, text: str) -> Asked:
        """Remembers a prompt that is about to be sent."""
        asked = Asked(request_id, text, [])
        self.asked.append(asked)
        return asked

    def prompt(self, *, patience: float | None = None) -> None:
        """A new prompt: for any time, only if idle, or for a Turn that may or may not be the running one."""
        number = len(self.asked) + 1
        asked = self.will_ask(f"r{number}", f"prompt {number}")
        options: dict[str, Any] = {}
        committed, choice = self._world.committed, self._random.random()
        running = committed.running
        if choice < 0.1:
            options["if_idle"] = True
        elif choice < 0.4 and running and (choice < 0.13 or running not in committed.ended):
            options["expected_turn_id"] = running
        elif choice > 0.97:
            options["expected_turn_id"] = "turn-unknown"
        self.start(f"prompt {asked.request_id} {options}", lambda: self._prompt(asked, options), patience=patience)

    def ask(self, request_id: str, text: str, **options: Any) -> None:
        """This prompt, for the first time or again."""
        known = next((asked for asked in self.asked if asked.request_id == request_id), None)
        asked = known or self.will_ask(request_id, text)
        self.start(f"prompt {request_id} {options}", lambda: self._prompt(asked, options))

    def resend(self) -> None:
        """A prompt again that was sent before, answered or not; at times with another body."""
        if self.asked:
            asked = self._random.choice(self.asked)
            other = self._random.random() < 0.3
            self.start(f"resend {asked.request_id} other={other}", lambda: self._resend(asked, other))

    async def _resend(self, asked: Asked, other: bool) -> object:
        if not other:
            return await self._prompt(asked, {})
        if not asked.receipts:
            return None
        receipt: Any = None
        try:
            receipt = await self._world.registry.prompt(
                SESSION, parts=(TextInput("another body"),), client_request_id=asked.request_id
            )
        except RequestError as error:
            fits = error.code in ("conflict", "unavailable") or self._excused(error)
            self._world.journal.require(fits, "S9", f"another body of {asked.request_id}: {error.code}")
        self._world.journal.require(receipt is None, "S9", f"another body of {asked.request_id} got {receipt}")
        return receipt

    async def _prompt(self, asked: Asked, options: dict[str, Any]) -> Receipt:
        receipt = await self._world.registry.prompt(
            SESSION, parts=(TextInput(asked.text),), client_request_id=asked.request_id, **options
        )
        known = asked.receipts[0] if asked.receipts else None
        self._check_receipt(asked, receipt, known, options)
        asked.receipts.append(receipt)
        self._turns.append(receipt.turn_id)
        return receipt

    def _check_receipt(self, asked: Asked, receipt: Receipt, known: Receipt | None, options: dict[str, Any]) -> None:
        require = self._world.journal.require
        if known is not None:
            same = (known.turn_id, known.message_id, known.sequence)
            fits = (receipt.turn_id, receipt.message_id, receipt.sequence) == same
            require(fits, "S9", f"{asked.request_id} got {receipt} after {known}")
        if receipt.outcome == "steered":
            require(receipt.turn_id == options.get("expected_turn_id"), "T1", f"{receipt} for {options}")
        if receipt.outcome == "queued":
            require("if_idle" not in options, "T1", f"{receipt} for {options}")

    def prompt_in_process(self) -> None:
        """A prompt of code in the server's own process, which waits for the Turn's end."""
        number = len(self.asked) + 1
        asked = self.will_ask(f"h{number}", f"prompt {number}")

        async def ask_and_wait() -> object:
            async with self._world.registry.open(SESSION) as session:
                turn = await session.prompt(asked.text, client_request_id=asked.request_id)
                asked.receipts.append(turn.receipt)
                with trio.move_on_after(ANSWER_SECONDS - 10):
                    result = await turn.finished()
                    self.results.append(result)
                    return result
            return None

        self.start(f"in-process prompt {asked.request_id}", ask_and_wait)

    def will_instruct(self, text: str) -> Instructed:
        """Remembers an instruction that is about to be given."""
        instructed = Instructed(text)
        self.instructed.append(instructed)
        return instructed

    def instruct(self, *, patience: float | None = None) -> None:
        """The server's program tells the model something, whatever goes on."""
        instructed = self.will_instruct(f"instruction {len(self.instructed) + 1}")

        async def instruct() -> UserMessage:
            parts = (TextInput(instructed.text),)
            instructed.message = await self._world.registry.instruct(SESSION, parts=parts)
            return instructed.message

        self.start(instructed.text, instruct, patience=patience)

    # ------------------------------------------------------------------------------------------------ stops and answers

    def stop(self) -> None:
        turn_id = self._random.choice((None, None, *self._turns[-2:], "turn-unknown"))
        self.start(f"stop {turn_id}", lambda: self._world.registry.stop(SESSION, turn_id=turn_id))

    def respond(self, *, times: int = 1) -> None:
        """Answers to cards, new and old ones, right and wrong; `times` users answer the same one at once."""
        registry = self._world.registry

        async def respond(by: str, response: dict[str, Any], wrong: int) -> object:
            for card in (await registry.interactions(SESSION)).items:
                self._cards[card.interaction_id] = card
            if not self._cards:
                return None
            card = self._random.choice(list(self._cards.values())[-2:])
            if card.interaction_type == "question":
                response = {"answers": {"color": by}}
            return await self.respond_to(card, by, response, wrong)

        for number in range(times):
            decision = self._random.choice(("approved", "approved", "denied"))
            response = {"reason": "because", "decision": decision}
            wrong = self._random.choice((0, 0, 0, 0, 1))
            self.start(f"user{number} responds", lambda by=f"user{number}", r=response, w=wrong: respond(by, r, w))  # type: ignore[misc]

    def answer(self, card: PendingInteraction, by: str, response: dict[str, Any]) -> None:
        self.start(f"answer {card.interaction_type}", lambda: self.respond_to(card, by, response))

    async def respond_to(
        self,
        card: PendingInteraction,
        by: str,
        response: dict[str, Any],
        wrong: int = 0,
        client_request_id: str | None = None,
    ) -> object:
        """With a `client_request_id` it may be said again, and counts once (S9)."""
        require = self._world.journal.require
        try:
            answer = await self._world.registry.respond(
                SESSION,
                card.interaction_id,
                revision=card.revision + wrong,
                response=response,
                client_request_id=client_request_id,
                principal=by,
            )
        except RequestError as error:
            if error.code == "already_resolved":
                pending = error.details["status"] == "pending"
                require(not pending, "P7", f"{card.interaction_id} is said to be resolved: {error.details}")
                before = [a for a in self.answered if a.interaction_id == card.interaction_id]
                told = not before or error.details["by"] == before[0].by
                require(told, "P7", f"{card.interaction_id}: {error.details}, but {before} won")
            raise
        require(wrong == 0, "A5", f"{card.interaction_id} was answered with a wrong revision")
        answered = Answered(card.interaction_id, by, response)
        if client_request_id is None or answered not in self.answered:
            self.answered.append(answered)
        return answer

    # ---------------------------------------------------------------------------------------------------------- others

    def update(self) -> None:
        title = self._random.choice((None, f"title {self._random.randint(1, 3)}"))
        mode: ApprovalMode = self._random.choice(("ask", "ask", "always-allow"))
        config = self._random.choice((None, ConfigChange(approval_mode=mode), ConfigChange(model="m2")))
        self.start(f"update {title} {config}", lambda: self._world.registry.update(SESSION, title=title, config=config))

    def archive(self) -> None:
        """Puts the Session away, or brings it back; the next prompt does that, too."""
        archived = self._random.random() < 0.7

        async def archive() -> None:
            session = await self._world.registry.update(SESSION, archived=archived)
            self.archived = self.archived or archived
            told = session.archived_at is not UNSET
            self._world.journal.require(told == archived, "S9", f"archived is {archived}, told was {session}")

        self.start(f"archived: {archived}", archive)

    def fork(self) -> None:
        """A fork of all, or up to a prompt, that is asked for the first time or again."""
        fork = self.forks.choose([asked.receipts[0].message_id for asked in self.asked if asked.receipts][-3:])
        self.start(f"{fork}", lambda: self.forks.make(fork), patience=self._random.choice((None, None, 0.01)))

    def delete_fork(self) -> None:
        made = self.forks.made
        if made:
            fork = self._random.choice(made)
            self.start(f"delete {fork}", lambda: self.forks.delete(fork))

    def join(self, tab: Tab, *, patience: float | None = None) -> None:
        """A tab comes, or comes back; one that loses patience has gone."""

        self.start(f"{tab.name} joins", lambda: self._world.join(tab), patience=patience)

    def leave(self, tab: Tab) -> None:
        self._world.journal.note(f"{tab.name} leaves")
        self._world.leave(tab)
