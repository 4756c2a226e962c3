"""The simulation sees what is broken: each of these servers breaks one rule, and is found out within a few seeds."""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from msgspec import structs

from simulation.simulate import run_seed
from simulation.world import MakeRegistry
from turnwire.models.base import ModelError
from turnwire.sessions.admission import Admission
from turnwire.sessions.attempts import Attempts
from turnwire.sessions.channel import Channel, EndReason
from turnwire.sessions.environment import Environment
from turnwire.sessions.interactions import Interactions
from turnwire.sessions.joining import Joining
from turnwire.sessions.loop import TurnLoop
from turnwire.sessions.projection import Projection
from turnwire.sessions.prompts import Prompt, PromptOptions
from turnwire.sessions.registry import Registry
from turnwire.sessions.residents import Residents
from turnwire.sessions.session import Session
from turnwire.sessions.tool_calls import ToolCalls
from turnwire.sessions.turns import ModelCall, Turn
from turnwire.store.base import REVISION_STRIDE, Operation, Recovered, SaveRequest, Store, StoredPage
from turnwire.store.memory import MemoryStore, open_memory
from turnwire.store.rows import MessageRow
from turnwire.tools.base import Tool
from turnwire_protocol.frames import Receipt
from turnwire_protocol.messages import AgentMessage
from turnwire_protocol.messages import Session as SessionFrame
from turnwire_protocol.mutations import DeltaMutation, Mutation

SEEDS = 150
"""How many worlds a broken server may survive."""


def registry_with(change: Callable[[Session], None]) -> MakeRegistry:
    """A registry whose Sessions are changed before they begin."""

    class BrokenResidents(Residents):
        async def _run_session(self, session: Session, *, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
            change(session)
            await super()._run_session(session, task_status=task_status)

    class BrokenRegistry(Registry):
        def __init__(self, environment: Environment) -> None:
            super().__init__(environment)
            self._residents = BrokenResidents(environment)

    return BrokenRegistry


# ------------------------------------------------------------------------------------------------------ broken servers


class SkipsNumbers(Channel):
    def publish(self, mutation: Mutation, *, internal: bool = False) -> None:
        if self._seq["visible"] % 7 == 6:
            self._seq["visible"] += 1
        super().publish(mutation, internal=internal)


class LosesMutations(Channel):
    def publish(self, mutation: Mutation, *, internal: bool = False) -> None:
        if not isinstance(mutation, DeltaMutation) or self._seq["all"] % 5:
            super().publish(mutation, internal=internal)


class EndsInSilence(Channel):
    def end(self, reason: EndReason) -> None:
        """Tells nobody."""


class ReusesRevisions(Session):
    def publish(self, mutation: Mutation, *, internal: bool = False) -> None:
        if isinstance(mutation, DeltaMutation):
            mutation = structs.replace(mutation, revision=mutation.revision - 1)
        super().publish(mutation, internal=internal)


class PublishesBeforeCommit(Session):
    async def checkpoint(self, draft: Projection, *operations: Operation) -> None:
        self.publish_message(draft.candidate(updated_at=self.env.now()))
        await super().checkpoint(draft, *operations)


class ForgetsPrompts(Session):
    async def commit(self, operations: Sequence[Operation]) -> None:
        if not any(isinstance(operation, SaveRequest) for operation in operations) or self.record.message_count % 3:
            await super().commit(operations)


class TellsEveryone(Session):
    def publish(self, mutation: Mutation, *, internal: bool = False) -> None:
        super().publish(mutation)


class ShowsEverything(Joining):
    async def _newest(self, limit: int, *, include_internal: bool) -> StoredPage:
        return await super()._newest(limit, include_internal=True)


class HidesWhatStreams(Joining):
    def _live_message(self) -> AgentMessage | None:
        return None


class LeavesBusy(Session):
    @property
    def idle(self) -> bool:
        return True


class FinishesTwice(TurnLoop):
    def _announce(self, turn: Turn, *result: Any) -> None:
        super()._announce(turn, *result)
        super()._announce(turn, *result)


class NeverFinishes(TurnLoop):
    def _announce(self, turn: Turn, *result: Any) -> None:
        turn.finished.set()


class AnswersTwice(Admission):
    async def prompt(self, prompt: Prompt, options: PromptOptions) -> Receipt:
        fresh = structs.replace(prompt, client_request_id=self._env.new_id("req"))
        return await super().prompt(fresh, options)


class AnswersNewestFirst(deque[Turn]):
    def append(self, turn: Turn) -> None:
        self.appendleft(turn)


class AsksNobody(ToolCalls):
    def _needs_approval(self, tool: Tool) -> bool:
        return False


class StopsNoTool(ToolCalls):
    def cancel_all(self) -> None:
        self._scopes.clear()


class HangsAfterTools(ToolCalls):
    async def step_on(self, turn: Turn, step_id: Any) -> None:
        await trio.lowlevel.checkpoint()


class LooksAtNoRevision(Interactions):
    async def respond(self, interaction_id: str, **answer: Any) -> Any:
        part = self._held(interaction_id)
        if part is not None:
            answer["revision"] = part.revision
        return await super().respond(interaction_id, **answer)


class KeepsHalfSteps(Attempts):
    async def _roll_back(self, step: Any) -> None:
        await trio.lowlevel.checkpoint()


class NeverRetries(Attempts):
    async def fail(self, turn: Turn, call: ModelCall, error: ModelError) -> None:
        call.scope.cancel()


class ForksTwice(Registry):
    async def fork(self, session_id: str, **options: Any) -> SessionFrame:
        return await super().fork(session_id, **options | {"client_request_id": None})


class DeletesNothing(Registry):
    async def delete(self, session_id: str) -> None:
        session = self.in_memory(session_id)
        if session is not None:
            session.channel.end("deleted")


class RecoversNothing(MemoryStore):
    async def recover(self, now: int, *, session_id: str | None = None) -> Recovered:
        await trio.lowlevel.checkpoint()
        return Recovered(sessions=0, messages=0, turns=0)


class RecoversAtTheNextRevision(MemoryStore):
    """What recovery stores takes the very next number, which a client may have seen with other content (E3)."""

    def _store(self, operations: Sequence[Any]) -> None:
        super()._store([self._near(operation) for operation in operations])

    def _near(self, operation: Any) -> Any:
        if not isinstance(operation, MessageRow) or operation.revision <= REVISION_STRIDE:
            return operation
        near = operation.revision - REVISION_STRIDE + 1
        head = operation.head.replace(str(operation.revision).encode(), str(near).encode())
        return structs.replace(operation, revision=near, head=head)


def _channel(kind: type[Channel]) -> Callable[[Session], None]:
    def change(session: Session) -> None:
        session.channel = kind(session.session_id, session.channel.epoch)

    return change


def _become(kind: type[Any], of: Callable[[Session], Any]) -> Callable[[Session], None]:
    """Makes an object of the Session one of its broken subclass."""

    def change(session: Session) -> None:
        of(session).__class__ = kind

    return change


def _newest_first(session: Session) -> None:
    session.loop.queue = AnswersNewestFirst()


BROKEN_SESSIONS: dict[str, tuple[Callable[[Session], None], set[str]]] = {
    "SkipsNumbers": (_channel(SkipsNumbers), {"W5"}),
    "AnswersTwice": (_become(AnswersTwice, lambda session: session.loop.admission), {"S9"}),
    "ShowsEverything": (_become(ShowsEverything, lambda session: session.joining), {"M4"}),
    "HidesWhatStreams": (_become(HidesWhatStreams, lambda session: session.joining), {"W4"}),
    "LosesMutations": (_channel(LosesMutations), {"S5"}),
    "EndsInSilence": (_channel(EndsInSilence), {"L1"}),
    "AnswersNewestFirst": (_newest_first, {"T1"}),
    **{
        kind.__name__: (_become(kind, lambda session: session), rules)
        for kind, rules in (
            (TellsEveryone, {"M4"}),
            (ReusesRevisions, {"S4", "S5"}),
            (PublishesBeforeCommit, {"S4"}),
            (ForgetsPrompts, {"S9"}),
            (LeavesBusy, {"K1", "S7", "T1"}),
        )
    },
    **{
        kind.__name__: (_become(kind, lambda session: session.loop), rules)
        for kind, rules in (
            (FinishesTwice, {"T1"}),
            (NeverFinishes, {"T1", "K1"}),
        )
    },
    **{
        kind.__name__: (_become(kind, lambda session: session.loop.tools), rules)
        for kind, rules in (
            (AsksNobody, {"P7"}),
            (StopsNoTool, {"T3"}),
            (HangsAfterTools, {"K1"}),
        )
    },
    **{
        kind.__name__: (_become(kind, lambda session: session.loop.attempts), rules)
        for kind, rules in (
            (KeepsHalfSteps, {"S2"}),
            (NeverRetries, {"K1"}),
        )
    },
    "LooksAtNoRevision": (_become(LooksAtNoRevision, lambda session: session.interactions), {"A5"}),
}


@pytest.mark.parametrize("name", BROKEN_SESSIONS)
def test_a_broken_session_is_found_out(name: str) -> None:
    change, rules = BROKEN_SESSIONS[name]
    registry = registry_with(change)
    assert_found_out(lambda seed: run_seed(seed, make_registry=registry).broken, rules)


@pytest.mark.parametrize(("kind", "rules"), [(ForksTwice, {"S9"}), (DeletesNothing, {"W4"})])
def test_a_broken_registry_is_found_out(kind: type[Registry], rules: set[str]) -> None:
    assert_found_out(lambda seed: run_seed(seed, make_registry=kind).broken, rules)


@pytest.mark.parametrize(("kind", "rule"), [(RecoversNothing, "S7"), (RecoversAtTheNextRevision, "S6")])
def test_a_broken_recovery_is_found_out(kind: type[MemoryStore], rule: str) -> None:
    @asynccontextmanager
    async def open_store() -> AsyncIterator[Store]:
        async with open_memory() as store:
            store.__class__ = kind
            yield store

    assert_found_out(lambda seed: run_seed(seed, open_store=open_store).broken, {rule})


def assert_found_out(run: Callable[[int], list[str]], rules: set[str]) -> None:
    for seed in range(SEEDS):
        broken = {sentence.partition(":")[0] for sentence in run(seed)}
        if broken & rules:
            return
    raise AssertionError(f"{SEEDS} seeds did not find that {rules} are broken")
