"""Forks: Sessions that users make of the one that everything happens in, ask for again, and delete.

A fork is a copy of a history that never changes afterwards, so at rest it equals the beginning of the other's (M5).
"""

from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from simulation.journal import Journal
from simulation.tabs import SESSION, Map, is_terminal
from simulation.world import World
from turnwire.sessions.snapshots import session_frame
from turnwire.store.base import NotFound, Store
from turnwire_protocol.messages import Session

REQUESTS = 3
"""So few request ids that most are used again."""


class Fork(Struct):
    """One `client_request_id`: the body that it is meant for, and the Session that it got."""

    request_id: str
    through_message_id: str | None
    session_id: str | None = None
    deleted: bool = False
    """Whether anybody has tried to."""


class Forks:
    """All forks of one run."""

    def __init__(self, world: World, random: Random) -> None:
        self._world = world
        self._random = random
        self._by_request: dict[str, Fork] = {}
        self.others: set[str] = set()
        """Sessions that are no forks, and may be there or not."""
        self.seen: set[str] = set()
        """What has become of requests, for those who want to know whether anything did."""

    def choose(self, message_ids: list[str]) -> Fork:
        """A fork to ask for, again or for the first time: up to one of these Messages, or of all."""
        request_id = f"fork{self._random.randint(1, REQUESTS)}"
        through = self._random.choice((None, *message_ids))
        return self.wanted(request_id, through)

    def wanted(self, request_id: str, through: str | None = None) -> Fork:
        """This fork to ask for, again or for the first time."""
        return self._by_request.setdefault(request_id, Fork(request_id, through))

    async def make(self, fork: Fork) -> Session:
        """The request. The same one gives the same Session, or one anew where that was deleted (S9)."""
        made = await self._world.registry.fork(
            SESSION, through_message_id=fork.through_message_id, client_request_id=fork.request_id
        )
        same = fork.session_id in (None, made.session_id)
        self._world.journal.require(same, "S9", f"{fork} got {made.session_id}")
        self.seen.add("forked" if fork.session_id is None else "forked again")
        fork.session_id = made.session_id
        return made

    @property
    def made(self) -> list[Fork]:
        """Those that somebody was told of."""
        return [fork for fork in self._by_request.values() if fork.session_id is not None]

    async def delete(self, fork: Fork) -> None:
        """Of a fork that was made."""
        fork.deleted = True
        assert fork.session_id is not None
        await self._world.registry.delete(fork.session_id)
        self.seen.add("fork deleted")

    async def check(self, store: Store, history: list[Map]) -> None:
        """All that is listed is there, and every fork that is there is sound."""
        journal, known = self._world.journal, {SESSION}
        for fork in self._by_request.values():
            try:
                made = None if fork.session_id is None else await store.session(fork.session_id)
            except NotFound:
                journal.require(fork.deleted, "S9", f"{fork} was made, and is not stored")
                continue
            if made is not None:
                known.add(made.session_id)
                shown = await self._world.registry.get(made.session_id)
                expected = session_frame(made, executing=False)
                journal.require(shown == expected, "T2", f"a fork is shown as {shown}, stored is {expected}")
                copies = await all_messages(store, made.session_id)
                journal.require(len(copies) == made.message_count, "M3", f"{made} has {len(copies)} Messages")
                _check_copies(journal, fork, copies, history)
        listed = [await self._world.registry.list(archived=archived, limit=200) for archived in (False, True)]
        names = {item.session_id for page in listed for item in page.items}
        unknown = names - known - self.others  # of a request that was never answered: at least it has one of our ids
        journal.require(known <= names, "M5", f"not listed: {known - names}")
        journal.require(len(unknown) <= len(self._by_request), "S9", f"listed, but never made: {unknown}")


def _check_copies(journal: Journal, fork: Fork, copies: list[Map], history: list[Map]) -> None:
    for copy, source in zip(copies, history, strict=False):
        origin = {"session_id": SESSION, "message_id": source["message_id"]}
        journal.require(copy.get("origin") == origin, "M5", f"{fork}: {copy} comes from {source['message_id']}")
        same = all(copy[name] == source[name] for name in ("role", "sequence", "visibility", "created_at"))
        journal.require(same, "M5", f"{fork} has {copy}, a copy of {source}")
        open_parts = [part for part in copy["parts"] if not is_terminal(part)]
        journal.require(not open_parts and copy["parts"] == source["parts"], "M5", f"{fork}: {copy} of {source}")
    if copies and fork.through_message_id is not None:
        last = copies[-1]["origin"]["message_id"]
        journal.require(last == fork.through_message_id, "M5", f"{fork} ends with a copy of {last}")


async def all_messages(store: Store, session_id: str) -> list[Map]:
    """The whole history, ascending."""
    before: int | None = None
    messages: list[Any] = []
    while True:
        page = await store.page(session_id, before_sequence=before, limit=200, include_internal=True)
        messages = [msgspec.json.decode(item.json.text) for item in page.items] + messages
        if not page.has_more:
            return messages
        before = page.items[0].sequence
