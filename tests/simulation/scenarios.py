"""The scenarios: together they pass through every await of Sessions and Composer, but for those that a test lists.

`Busy` is a Session at its best, `Unlucky` one where all goes wrong that may, `Embedded` one that the server's own
program uses, and that fails and is drained.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import trio
from msgspec import structs

from simulation.model import Happening, Plan
from simulation.scenario import EVENT_SECONDS, Scenario, blocks
from simulation.tabs import SESSION
from simulation.users import Answered
from simulation.world import LIMITS
from turnwire.models.base import BlockDelta, ModelError
from turnwire.sessions.handles import SessionHandle
from turnwire_protocol.frames import ConfigChange, PendingInteraction
from turnwire_protocol.mutations import Mutation, TurnFinish
from turnwire_protocol.parts import TextInput

QUESTIONS = '{"questions":[{"question_id":"color","question":"Which?"}]}'
RED = {"answers": {"color": "red"}}


def paced(*calls: Sequence[Happening], every: float = EVENT_SECONDS) -> list[Plan]:
    return [[(every, happening) for happening in call] for call in calls]


class Busy(Scenario):
    """Reasoning and text, a retry, parallel tools, an approval, a question, a steered and a queued prompt, an Action, a
    tab that joins late, and a stop.
    """

    def plans(self, kind: str) -> list[Plan]:
        if kind != "turn":
            return []
        first = blocks(
            ("reasoning", "let me think"),
            ("text", "I shall ask"),
            ("danger", '{"rm":1}'),
            ("slow", '{"seconds":1}'),
            ("ask_user", QUESTIONS),
        )
        return paced(
            [*first[:6], ModelError("overloaded", "busy", retry_after_ms=0)],
            first,
            blocks(("echo", '{"n":1}')),
            blocks(("text", "so it is")),
            blocks(("text", "a long answer, cut short"), ("stuck", "{}")),
        )

    async def story(self) -> None:
        self.users.ask("r1", "do it")
        await self.goes_by(2.0)  # the failed attempt, and into the next one
        self.users.ask("r1", "do it")
        self.users.join(self.world.new_tab(limit=2))
        self.users.ask("r2", "and this", expected_turn_id=self.world.committed.running)
        self.users.ask("r3", "later")
        await self.goes_by(1.0)
        self.users.start("update", lambda: self.registry.update(SESSION, config=ConfigChange(model="m2")))
        await self.goes_by(1.5)
        for card in self.cards():
            response = RED if card.interaction_type == "question" else {"decision": "approved"}
            self.users.answer(card, "ann", response)
        await self.goes_by(5.0)  # the tools, the Step with the steered prompt, and into the queued Turn
        self.users.start("stop", lambda: self.registry.stop(SESSION))
        await self.goes_by(1.0)


class Unlucky(Scenario):
    """Messages that grow too long, a denial, an approval that nobody gives in time, an answer cut off, a history too
    long for the model, which is compacted, and one that cannot be; a Turn of too many Steps, faults of the model that
    are final, a store that is away while the model talks; a title, an Action, instructions, tabs that hold little.
    """

    limits = structs.replace(LIMITS, message_bytes=1_500, steps=3)
    window_tokens = 2_000

    def plans(self, kind: str) -> list[Plan]:
        long, longer = "x" * 700, "x" * 1_600
        half, echo = blocks(("text", "half"))[:2], [*blocks(("text", ""), ("echo", '{"n":1}'))][3:]
        overloaded = ModelError("overloaded", "busy", retry_after_ms=200)
        too_long = ModelError("context_length", "too long")
        if kind == "title":
            return paced([overloaded], blocks(("text", "A title")))
        if kind == "compaction":
            piece = blocks(("text", "A summary"))
            return paced([overloaded], piece, piece, [ModelError("invalid_request", "no")])
        return [
            *paced(
                blocks(
                    ("text", long), ("text", long), ("text", longer), ("danger", '{"rm":1}'), ("danger", '{"rm":2}')
                ),
                blocks(("text", longer)),
                blocks(("text", "cut off he"), end="length"),
                [*half, too_long],
                blocks(("text", "shorter"), ("echo", '{"n":1}')),
                blocks(("text", "in the end")),
                [too_long],
                [*half, BlockDelta(9, "of nothing")],
                *[blocks(("echo", "nonsense"))] * self.limits.steps,
                [*half, ModelError("invalid_request", "no")],
            ),
            [(0.0, event) for event in half + half[1:2] * 20] + [(EVENT_SECONDS, event) for event in echo],
        ]

    async def story(self) -> None:
        self.users.instruct()
        self.users.start("config", lambda: self.registry.update(SESSION, config=ConfigChange(model="m2")))
        self.users.ask("r1", "do it")
        await self.goes_by(1.0)
        self.users.ask("r2", "second")
        self.users.instruct()
        self.users.join(self.world.new_tab(limit=1))
        cards = await self.until_cards(2)
        if cards:
            self.users.answer(cards[0], "ann", {"decision": "denied", "reason": "no"})
        await self.goes_by(4.0)  # the other expires, and the second Turn is cut off
        if cards:
            self.users.answer(cards[-1], "late", {"decision": "approved"})
        for number, seconds in ((3, 5.0), (4, 2.0), (5, 2.0), (6, 3.0), (7, 2.0)):
            self.users.ask(f"r{number}", f"prompt {number}")
            await self.goes_by(seconds)
        self.users.ask("r8", "prompt 8")
        await self.goes_by(0.3)
        self.down_until = trio.current_time() + 3.0
        await self.goes_by(6.0)


class Embedded(Scenario):
    """Code in the server's own process uses a Session, which somebody forks; its task fails, and the store is away when
    it is to be recovered; then the server is drained.
    """

    limits = structs.replace(LIMITS, interaction_seconds=20.0)
    watched = False

    def plans(self, kind: str) -> list[Plan]:
        if kind != "turn":
            return []
        return paced(
            blocks(("danger", '{"rm":1}'), ("ask_user", QUESTIONS)),
            blocks(("text", "well done")),
            blocks(("text", "this will not end"), ("stuck", "{}")),
            blocks(("text", "nor this"), ("stuck", "{}")),
            blocks(("text", "nor that"), ("stuck", "{}")),
        )

    async def story(self) -> None:
        await self._each_verb_opens()
        for _ in range(2):
            self.users.start("get", lambda: self.registry.get(SESSION))
            self.users.start("at once", lambda: self.registry.update(SESSION, config=ConfigChange(model="m2")))
        self.users.start("code", self._code)
        await self.goes_by(1.0)
        fork = self.users.forks.wanted("fork1")
        for name in ("fork", "fork at once", "fork again"):
            self.users.start(name, lambda: self.users.forks.make(fork))
            await self.goes_by(1.0 if name == "fork at once" else 0.0)
        await self.goes_by(4.0)
        self.users.start("archive", lambda: self.registry.archive(SESSION))
        self.users.ask("r3", "third")
        await self.goes_by(0.5)
        self.bugs, self.down_until = 1, trio.current_time() + 2.0  # the end of the Step fails, and then the recovery
        await self.goes_by(4.0)
        self.users.ask("r4", "fourth")
        await self.goes_by(0.5)
        self.users.start("drain", lambda: self.registry.drain(0.5), patience=60.0)
        await self.goes_by(2.0)
        if not self.world.dead:
            self.world.kill()
        await self.goes_by(0.5)

    async def _each_verb_opens(self) -> None:
        """Each comes to a Session that is not in memory."""
        other = "other"
        self.users.forks.others.add(other)
        verbs: dict[str, Callable[[], Awaitable[object]]] = {
            "create": lambda: self.registry.create(session_id=other),
            "delete": lambda: self.registry.delete(other),
            "respond": lambda: self.registry.respond(SESSION, "i1", revision=1, response={}, client_request_id="i"),
            "interactions": lambda: self.registry.interactions(SESSION),
            "owned_by": lambda: self.registry.owned_by(SESSION, "local"),
            "list": lambda: self.registry.list(),
            "stop": lambda: self.registry.stop(SESSION),
            "title": lambda: self.registry.update(SESSION, title="A"),
        }
        asked: list[Callable[[], None]] = [partial(self.users.start, name, verb) for name, verb in verbs.items()]
        asked += [self.users.instruct, lambda: self.users.join(self.world.new_tab(internal=True))]
        for ask in asked:
            self.registry.evict_idle()
            ask()
            await self.goes_by(0.2)
        self.users.leave(self.world.tabs.pop())
        self.registry.evict_idle()

    async def _code(self) -> None:
        heard: list[Mutation] = []

        async def hear(mutation: Mutation) -> None:
            await trio.sleep(0.01)
            heard.append(mutation)

        async with self.registry.open(SESSION) as session:
            unsubscribe = session.subscribe(hear)
            asked = self.users.will_ask("r1", "do it")
            turn = await session.prompt(asked.text, client_request_id=asked.request_id)
            asked.receipts.append(turn.receipt)
            instructed = self.users.will_instruct("be brief")
            instructed.message = await session.instruct((TextInput(instructed.text),))
            await trio.sleep(1.2)  # until both cards are there
            for card in (await session.interactions()).items:
                await self._respond(session, card)
            self.users.results.append(await turn.finished())
            page = await session.messages()
            require = self.world.journal.require
            require(page.total > len(page.items), "M3", f"an instruction counts, but is not shown: {page}")
            asked = self.users.will_ask("r2", "second")
            turn = await session.prompt(asked.text, client_request_id=asked.request_id)
            asked.receipts.append(turn.receipt)
            await trio.sleep(1.0)
            await session.stop()
            self.users.results += [await turn.finished(), await turn.finished()]
            unsubscribe()
        finished = [mutation.turn_id for mutation in heard if isinstance(mutation, TurnFinish)]
        heard_once = finished.count(turn.turn_id) == 1 or self.world.committed.met_a_bug
        require(heard_once, "L1", f"the code heard of the finishes of {finished}")

    async def _respond(self, session: SessionHandle, card: PendingInteraction) -> None:
        """The approval as code does, the question as a client that asks twice."""
        if card.interaction_type == "question":
            for _ in range(2):
                await self.users.respond_to(card, "code", RED, client_request_id="answer")
        else:
            response = {"decision": "approved"}
            await session.respond(card.interaction_id, revision=card.revision, response=response, principal="code")
            self.users.answered.append(Answered(card.interaction_id, "code", response))
