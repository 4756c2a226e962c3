"""Who may do what: grants, owners, hooks of an embedding program, and answers that tell nothing (X3, W9)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from foreign_code import AT_ONCE, Foreign, name_of
from gateway_world import Client, World, gateway_world, no_traceback, token_for
from gateway_world import token_authenticator as authenticator
from turnwire.gateway import Action, GatewaySettings, Principal
from turnwire.gateway.authorization import CONNECTION_OPS, LEVELS, NEEDED
from turnwire.store.base import Scope
from turnwire_protocol.codec import OPS
from turnwire_protocol.codes import RequestError

FIELDS: dict[str, dict[str, Any]] = {
    "prompt": {"client_request_id": "r", "text": "hi"},
    "interaction.respond": {"interaction_id": "i", "revision": 1, "response": {"decision": "denied"}},
    "session.update": {"title": "New"},
}
ON_A_SESSION = sorted(NEEDED)


@asynccontextmanager
async def visitor(world: World, sub: str = "ada", **claims: Any) -> AsyncIterator[Client]:
    async with world.client(hello=False) as client:
        welcome = await client.request("hello", token=token_for(sub, **claims))
        assert welcome["principal"] == {"id": sub}
        yield client


async def ask(client: Client, op: str, session_id: str = "s") -> dict[str, Any]:
    return await client.request(op, session_id=session_id, **FIELDS.get(op, {}))


def comparable(answer: dict[str, Any], session_id: str) -> dict[str, Any]:
    """The answer without what was asked."""
    assert session_id in answer["message"]
    return {**answer, "id": 0, "message": answer["message"].replace(session_id, "…")}


def test_X3_every_op_is_asked_about_or_concerns_the_connection_alone() -> None:
    assert set(OPS) == {*NEEDED, *CONNECTION_OPS, "session.create", "session.list"}


@pytest.mark.parametrize("op", ON_A_SESSION)
async def test_X3_a_session_of_others_looks_like_none_at_all(op: str, autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world, visitor(world) as client:
        session = world.sessions.add("theirs", owner="bob")
        hidden = await ask(client, op, "theirs")
        lookups = world.sessions.lookups
        unknown = await ask(client, op, "nowhere")
        assert hidden["code"] == "not_found"
        assert comparable(hidden, "theirs") == comparable(unknown, "nowhere")
        assert world.sessions.lookups - lookups == lookups, "the same work for both"
        assert not session.channel.watched
        assert session.items == []
        assert list(world.sessions.sessions) == ["theirs"]


@pytest.mark.parametrize("op", ON_A_SESSION)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("named", ["s", "*"])
async def test_X3_a_grant_allows_its_level_and_what_is_below(
    op: str, level: str, named: str, autojump_clock: MockClock
) -> None:
    async with gateway_world(authenticator=authenticator()) as world, visitor(world, grants={named: level}) as client:
        world.sessions.add("s", owner="bob")
        answer = await ask(client, op)
        allowed = LEVELS.index(level) >= LEVELS.index(NEEDED[op])  # type: ignore[index]
        if not allowed:
            assert answer["code"] == "forbidden", "what one sees is not denied to exist"
        elif op == "reload":
            assert answer["message"] == "session_id: not subscribed"
        elif op == "interaction.respond":
            assert "interaction" in answer["message"]
        else:
            assert answer["op"] == "result", answer


async def test_X3_archiving_by_an_update_needs_the_level_of_archiving(autojump_clock: MockClock) -> None:
    grants = {"mine": "owner", "shared": "editor"}
    async with gateway_world(authenticator=authenticator()) as world, visitor(world, grants=grants) as client:
        for session_id in grants:
            world.sessions.add(session_id, title="Old", owner="bob")
        for archived in (True, False):
            assert await client.result("session.update", session_id="mine", archived=archived)
            refusal = await client.request("session.update", session_id="shared", title="New", archived=archived)
            assert refusal["code"] == "forbidden"
            assert "session.archive" in refusal["message"]
            assert world.sessions.sessions["shared"].title == "Old"
        assert await client.result("session.update", session_id="shared", title="New")


@pytest.mark.parametrize("op", ON_A_SESSION)
async def test_X3_who_creates_a_session_owns_it_and_admins_may_everything(op: str, autojump_clock: MockClock) -> None:
    async with (
        gateway_world(authenticator=authenticator()) as world,
        visitor(world) as client,
        visitor(world, "root", roles=["admin"]) as admin,
    ):
        for number, each in enumerate((client, admin)):
            await client.result("session.create", session_id=f"s{number}")
            answer = await ask(each, op, f"s{number}")
            refused = answer.get("message", "")
            assert answer["op"] == "result" or "not subscribed" in refused or "interaction" in refused, answer
        assert world.sessions.created_by == ["ada", "ada"]


async def test_X3_only_users_and_admins_create_sessions(autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world, visitor(world, roles=["guest"]) as guest:
        assert (await guest.request("session.create"))["code"] == "forbidden"
        assert world.sessions.sessions == {}
        world.sessions.add("mine", owner="ada")
        assert (await guest.request("session.get", session_id="mine"))["op"] == "result"


async def test_X3_a_listing_shows_what_one_may_see(autojump_clock: MockClock) -> None:
    async with gateway_world(authenticator=authenticator()) as world:
        for name, owner in (("a", "ada"), ("b", "bob"), ("c", "bob"), ("d", "ada")):
            world.sessions.add(name, owner=owner)
        for claims, expected in (
            ({}, "ad"),
            ({"grants": {"c": "viewer", "nowhere": "owner"}}, "acd"),
            ({"grants": {"*": "viewer"}}, "abcd"),
            ({"roles": ["admin"]}, "abcd"),
            ({"roles": []}, "ad"),
        ):
            async with visitor(world, **claims) as client:
                listing = await client.result("session.list")
                assert [item["session_id"] for item in listing["items"]] == list(expected)


async def test_X3_one_principal_owns_so_many_sessions_and_no_more(autojump_clock: MockClock) -> None:
    settings = GatewaySettings(max_sessions_per_principal=2)
    async with gateway_world(settings, authenticator=authenticator()) as world, visitor(world) as client:
        for number in range(2):
            await client.result("session.create", session_id=f"s{number}")
        refused = await client.request("session.create")
        assert (refused["code"], refused["retryable"]) == ("conflict", False)
        assert (await client.request("session.fork", session_id="s1"))["code"] == "conflict"
        async with visitor(world, "bob") as other:
            await other.result("session.create")


# ---------------------------------------------------------------------------------------- hooks of embedding programs


class Members:
    """An Authorizer with a list of its own, as an embedding program would have; it may be sync or async."""

    def __init__(self, *, slow: bool) -> None:
        self.members: set[tuple[str, str]] = set()
        self.asked: list[tuple[str, Action, str | None]] = []
        self.fault: Exception | None = None
        self._slow = slow

    def may(self, principal: Principal, action: Action, session_id: str | None) -> Any:
        self.asked.append((principal.id, action, session_id))
        if self.fault is not None:
            raise self.fault
        return self._answer(session_id is None or (principal.id, session_id) in self.members)

    def scope(self, principal: Principal) -> Any:
        return self._answer(Scope("", frozenset(session for who, session in self.members if who == principal.id)))

    def _answer(self, answer: Any) -> Any:
        async def later() -> Any:
            await trio.sleep(0.01)
            return answer

        return later() if self._slow else answer


@pytest.mark.parametrize("slow", [False, True])
async def test_X3_a_program_with_rules_of_its_own_is_asked_before_every_request(
    slow: bool, autojump_clock: MockClock
) -> None:
    rules = Members(slow=slow)
    async with gateway_world(authorizer=rules) as world, world.client() as client:
        for name in ("s", "t"):
            world.sessions.add(name)
        rules.members.add(("local", "s"))
        for op in ON_A_SESSION:
            if op != "session.delete":
                assert (await ask(client, op, "t"))["code"] == "not_found"
                await ask(client, op, "s")
        asked = {action for _, action, session in rules.asked if session == "s"}
        assert asked == set(ON_A_SESSION) - {"session.delete"}
        await client.result("session.create")
        listing = await client.result("session.list")
        assert [item["session_id"] for item in listing["items"]] == ["s"]
        assert rules.asked[-2:] == [("local", "session.create", None), ("local", "session.list", None)]
        before = len(rules.asked)
        await client.result("ping")
        await client.result("unsubscribe", session_id="t")
        assert len(rules.asked) == before


@pytest.mark.parametrize("foreign", AT_ONCE, ids=name_of)
async def test_W9_whatever_a_hook_raises_fails_its_request_alone(
    foreign: Foreign, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Rules(Members):
        async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
            await foreign()
            return True

    class Door:
        async def authenticate(self, token: str | None) -> Principal:
            if token is None:
                await foreign()
            return Principal(id="local")

    rules = Rules(slow=True)
    async with gateway_world(authorizer=rules, authenticator=Door()) as world, world.client(hello=False) as client:
        world.sessions.add("s")
        assert (await client.request("hello", token="t"))["op"] == "welcome"
        assert (await ask(client, "session.get"))["code"] == "internal"
        async with world.client(hello=False) as other:
            assert (await other.request("hello"))["code"] == "internal"
        assert await client.result("ping") == {}


async def test_X3_what_a_hook_raises_in_a_nursery_of_its_own_is_the_answer_it_meant(autojump_clock: MockClock) -> None:
    class Rules(Members):
        async def may(self, principal: Principal, action: Action, session_id: str | None) -> bool:
            async with trio.open_nursery():
                raise RequestError("unavailable", "the directory is down")

    async with gateway_world(authorizer=Rules(slow=True)) as world, world.client() as client:
        world.sessions.add("s")
        assert (await ask(client, "session.get"))["code"] == "unavailable"


async def test_W9_a_hook_that_fails_is_a_fault_of_the_server_and_lets_nobody_in(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Members(slow=False)
    async with gateway_world(authorizer=rules) as world, world.client() as client:
        world.sessions.add("s")
        rules.fault = ZeroDivisionError("a bug")
        assert (await ask(client, "session.get"))["code"] == "internal"
        rules.fault = RequestError("unavailable", "the directory is down")
        assert (await ask(client, "session.get"))["code"] == "unavailable"
    assert [record.message for record in caplog.records if record.exc_info] == ["request `session.get` failed"]


async def test_X3_a_right_that_was_taken_away_ends_the_subscription(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Members(slow=True)
    with no_traceback(caplog):
        async with gateway_world(authorizer=rules) as world, world.client() as client, world.client() as other:
            for name in ("s", "t"):
                world.sessions.add(name)
                rules.members.add(("local", name))
                await client.result("subscribe", session_id=name)
            rules.members.remove(("local", "s"))
            await world.gateway.recheck("somebody else")
            world.sessions.say("s", "still there")
            await client.op("mutation")
            await world.gateway.recheck("local")
            world.sessions.say("s", "secret")
            world.sessions.say("t", "shared")
            ended = await client.op("unsubscribed")
            assert ended == {"op": "unsubscribed", "session_id": "s", "reason": "forbidden"}
            await client.find(lambda frame: frame.get("delta") == "shared")
            assert client.deltas("s") == ["still there"]
            assert not world.sessions.sessions["s"].channel.watched
            assert (await ask(client, "reload"))["code"] == "not_found"
            await world.gateway.recheck()
            assert len(client.ops("unsubscribed")) == 1
            rules.members.add(("local", "s"))
            await client.result("subscribe", session_id="s")
            assert other.ops("unsubscribed") == []


async def test_X3_a_right_that_is_taken_away_while_one_joins_is_taken_away(autojump_clock: MockClock) -> None:
    rules = Members(slow=False)
    async with gateway_world(authorizer=rules) as world, world.client() as client:
        session = world.sessions.add("s")
        rules.members.add(("local", "s"))
        world.sessions.hold = trio.Event()
        asked = await client.ask("subscribe", session_id="s")
        await trio.sleep(1)
        rules.members.clear()
        await world.gateway.recheck()
        world.sessions.hold.set()
        assert (await client.answer(asked))["code"] == "not_found"
        await client.result("ping")
        assert not session.channel.watched
        assert client.ops("snapshot") == []
        assert len([frame for frame in client.frames if frame.get("id") == asked]) == 1


async def test_X3_revoking_a_principal_closes_its_connections(autojump_clock: MockClock) -> None:
    async with (
        gateway_world(authenticator=authenticator()) as world,
        visitor(world) as one,
        visitor(world) as two,
        visitor(world, "bob") as other,
    ):
        world.gateway.revoke("ada")
        assert [await client.wait_closed() for client in (one, two)] == [4401, 4401]
        assert await other.result("ping") == {}
