"""Creation of Sessions, empty ones and forks, once for each request (S9, M5).

What is copied into a fork, and how, is the store's. Here nothing is in memory yet: who opens Sessions is `registry`.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

import trio
from msgspec import Struct

from turnwire.sessions.configs import changed
from turnwire.sessions.environment import Environment
from turnwire.sessions.faults import answered, too_late, too_many_sessions
from turnwire.sessions.prompts import digest_of
from turnwire.store.base import (
    ConstraintViolated,
    CreateSession,
    ForkSession,
    MessageNotFound,
    MessageOpen,
    NotFound,
    Operation,
    RequestRecord,
    SaveRequest,
    SessionRecord,
    TooManySessions,
)
from turnwire_protocol.codec import encode_json
from turnwire_protocol.codes import RequestError
from turnwire_protocol.frames import ConfigChange
from turnwire_protocol.messages import Config, StoredJson


class Creator(Struct, kw_only=True, frozen=True):
    """Who wants a Session: it will be the owner. `most` is how many one may own."""

    principal: str
    most: int | None = None
    client_request_id: str | None = None


async def create(
    env: Environment,
    session_id: str | None,
    *,
    title: str | None,
    config: ConfigChange | None,
    metadata: dict[str, Any] | None,
    creator: Creator,
) -> SessionRecord:
    """See `Registry.create`."""
    now = env.now()
    record = SessionRecord(
        session_id=session_id or _new_session_id(env, creator),
        owner=creator.principal,
        title=title,
        config=changed(Config(), config),
        metadata=_checked(env, metadata),
        created_at=now,
        updated_at=now,
    )
    operation = CreateSession(record, creator.most)
    digest = digest_of((title, config, metadata))
    with answered(env.limits.answer_seconds, record.session_id):
        return await _once(env, operation, record.session_id, creator, digest, "session_id")


async def fork(
    env: Environment,
    session_id: str,
    *,
    through_message_id: str | None,
    new_session_id: str | None,
    creator: Creator,
) -> SessionRecord:
    """See `Registry.fork`."""
    operation = ForkSession(
        session_id=session_id,
        new_session_id=new_session_id or _new_session_id(env, creator),
        through_message_id=through_message_id,
        now=env.now(),
        owner=creator.principal,
        most=creator.most,
    )
    digest = digest_of(("fork", session_id, through_message_id))
    with answered(env.limits.answer_seconds, session_id):
        return await _once(env, operation, operation.new_session_id, creator, digest, "new_session_id")


def _new_session_id(env: Environment, creator: Creator) -> str:
    if creator.client_request_id is None:
        return env.new_id("ses")
    # Derived, so that a resend, which cannot know the id that it was given, finds the same Session.
    return "ses_" + hashlib.sha256(f"{creator.principal}\0{creator.client_request_id}".encode()).hexdigest()[:24]


def _checked(env: Environment, metadata: dict[str, Any] | None) -> StoredJson | None:
    if metadata is None:
        return None
    stored, most_bytes = encode_json(metadata), env.limits.metadata_bytes
    if len(stored.text) > most_bytes:
        sentence = f"metadata: it takes more than {most_bytes} bytes of JSON"
        raise RequestError("invalid_argument", sentence, field="metadata")
    return stored


async def _once(
    env: Environment, operation: CreateSession | ForkSession, session_id: str, creator: Creator, digest: str, field: str
) -> SessionRecord:
    """Makes the Session `session_id`, or finds the one that this very request has made before (S9).

    Raises RequestError, with `field` where the id is taken, NotFound for the Session to fork, StoreUnavailable.
    """
    known = await _made_before(env, session_id, creator, digest, field)
    if known is not None:
        return known
    operations: list[Operation] = [operation]
    if creator.client_request_id is not None:
        operations.append(_memory(env, session_id, creator.client_request_id, digest))
    try:
        await _commit(env, operations)
    except MessageNotFound as error:
        raise RequestError("not_found", f"through_message_id: {error}", field="through_message_id") from None
    except MessageOpen as error:
        raise RequestError("conflict", f"through_message_id: {error}", field="through_message_id") from None
    except TooManySessions:
        raise too_many_sessions(creator.most) from None
    except ConstraintViolated:
        known = await _made_before(env, session_id, creator, digest, field)
        if known is None:
            raise _taken(field, session_id) from None
        return known  # sent twice at once, and the other was first
    return operation.record if isinstance(operation, CreateSession) else await env.store.session(session_id)


async def _commit(env: Environment, operations: Sequence[Operation]) -> None:
    """Waits whether its caller wants to or not, but not for ever: what it was may then be stored all the same."""
    seconds = env.limits.answer_seconds
    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
        await env.store.commit(operations)
    if scope.cancelled_caught:
        raise too_late(seconds)


async def _made_before(
    env: Environment, session_id: str, creator: Creator, digest: str, field: str
) -> SessionRecord | None:
    if creator.client_request_id is None:
        return None
    known = await env.store.request(session_id, creator.client_request_id)
    if known is None:
        return None
    try:
        record = await env.store.session(session_id)
    except NotFound:
        return None  # it was deleted just now
    if record.owner != creator.principal:
        raise _taken(field, session_id)  # what somebody else asked for tells nobody anything
    if known.digest != digest:
        sentence = "client_request_id: it was used for another request"
        raise RequestError("conflict", sentence, field="client_request_id")
    return record


def _memory(env: Environment, session_id: str, client_request_id: str, digest: str) -> SaveRequest:
    return SaveRequest(
        RequestRecord(
            session_id=session_id,
            client_request_id=client_request_id,
            digest=digest,
            answer=encode_json({"session_id": session_id}),
            created_at=env.now(),
        )
    )


def _taken(field: str, session_id: str) -> RequestError:
    return RequestError("conflict", f"{field}: {session_id} exists", field=field)
