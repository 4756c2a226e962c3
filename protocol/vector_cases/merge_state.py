"""Turn, queue, title and config, and what a newer server may send (L3, T1, P2)."""

from vector_cases.frames import (
    FILE_DIFF,
    NOW,
    OVERLOADED,
    WAITING,
    Plain,
    agent,
    case,
    delta,
    got,
    interaction,
    message,
    mutation,
    page,
    part,
    pending,
    session,
    snapshot,
    started,
    text,
    turn_finish,
    turn_start,
    user,
    users,
)

QUEUED = [{"turn_id": "t2", "message_id": "m2"}, {"turn_id": "t3", "message_id": "m3"}]


def turns() -> list[Plain]:
    counted = case(
        "`total` follows the greatest sequence",
        "M3 M5",
        got(snapshot(0, of=page(*users(7, 8), total=8))),
        got(message(1, user(9))),
        got(message(2, agent(10, text("a")))),
        got(message(3, agent(10, text("b"), revision=2))),
        status="live",
        total=10,
    )
    return [*_running(), *_queued(), *_not_queued(), counted]


def _running() -> list[Plain]:
    return [
        case(
            "a Turn begins and ends",
            "T2 L3",
            got(snapshot(0)),
            got(turn_start(1, "t1")),
            got(turn_finish(2, "t1", "failed")),
            status="live",
            turn=None,
            queue=[],
        ),
        case(
            "the running Turn, with the time of its Mutation",
            "T2 L3",
            got(snapshot(0)),
            got(turn_start(1, "t1")),
            status="live",
            turn=started("t1", NOW + 1),
        ),
        case(
            "the end of a Turn that does not run leaves the running one",
            "T2 T3",
            got(snapshot(0, user(1), user(2, turn_id="t2"), turn="t1", queue=QUEUED[:1])),
            got(turn_finish(1, "t2", "stopped")),
            status="live",
            turn=started("t1"),
            queue=[],
        ),
    ]


def _queued() -> list[Plain]:
    return [
        case(
            "prompts for other Turns wait in the queue in their order",
            "T1 M6",
            got(snapshot(0, user(1), turn="t1")),
            got(message(1, user(2, turn_id="t2"))),
            got(message(2, user(3, turn_id="t3"))),
            status="live",
            turn=started("t1"),
            queue=QUEUED,
            total=3,
        ),
        case(
            "a Turn that begins leaves the queue",
            "T1 T2",
            got(snapshot(0, user(1), user(2, turn_id="t2"), user(3, turn_id="t3"), turn="t1", queue=QUEUED)),
            got(turn_finish(1, "t1")),
            got(turn_start(2, "t2")),
            status="live",
            turn=started("t2", NOW + 2),
            queue=QUEUED[1:],
        ),
        case(
            "a prompt is in the queue until its Turn begins, also when the Session is idle",
            "T1",
            got(snapshot(0)),
            got(message(1, user(1))),
            status="live",
            turn=None,
            queue=[{"turn_id": "t1", "message_id": "m1"}],
            total=1,
        ),
    ]


def _not_queued() -> list[Plain]:
    ended = agent(2, text("a"), revision=2, state="done")
    return [
        case(
            "a prompt that joins the running Turn does not wait in the queue",
            "M6 M8",
            got(snapshot(0, user(1), agent(2, text("a")), turn="t1")),
            got(message(1, ended)),
            got(message(2, user(3))),
            got(message(3, agent(4, text("b")))),
            status="live",
            queue=[],
            messages=[user(1), ended, user(3), agent(4, text("b"))],
            total=4,
        ),
        case(
            "a Message of the user that changes is not queued again",
            "T1",
            got(snapshot(0, user(1, turn_id="t0"), turn="t1")),
            got(message(1, user(1, text("edited"), revision=2, turn_id="t0"))),
            status="live",
            queue=[],
            total=1,
        ),
        case(
            "an Agent Message of another Turn is not queued",
            "M9",
            got(snapshot(0, user(1), turn="t1")),
            got(message(1, agent(2, text("notice"), state="done", turn_id="t9"))),
            status="live",
            queue=[],
            total=2,
        ),
    ]


def settings() -> list[Plain]:
    return [
        case(
            "title and config replace one field of the Session each",
            "L3",
            got(snapshot(0, about=session(metadata={"team": 7}))),
            got(mutation(1, "session", type="title", title="New")),
            got(mutation(2, "session", type="config", config={"model": "m", "approval_mode": "always-allow"})),
            status="live",
            seq=2,
            session=session(metadata={"team": 7}, title="New", config={"model": "m", "approval_mode": "always-allow"}),
        )
    ]


def unknowns() -> list[Plain]:
    """What a newer server may send: it is kept, or passed over, and the numbers go on (P2)."""
    return [*_unknown_fields(), *_unknown_variants(), *_unknown_interactions()]


def _unknown_fields() -> list[Plain]:
    drawing = {"part_id": "p2", "sequence": 2, "type": "x-drawing", "strokes": [[1, 2], [3, 4]]}
    rich = {**agent(2, {**text("a"), "lang": "en"}, drawing), "x_score": 0.5}
    return [
        case(
            "unknown fields and Part types of a snapshot are kept",
            "P2",
            got(snapshot(0, rich, about=session(x_color="red"))),
            status="live",
            messages=[rich],
            session=session(x_color="red"),
        ),
        case(
            "unknown fields and Part types of Mutations are kept",
            "P2",
            got(snapshot(0, agent(2, text("a")))),
            got(part(1, 2, {**text("b"), "lang": "en"}, x_trace="abc")),
            got(part(2, 3, drawing)),
            got(delta(3, 4, "c", x_tokens=1)),
            got({**message(4, {**user(3), "x_mood": "good"}), "x_trace": "abd"}),
            status="live",
            messages=[
                agent(2, {**text("bc"), "lang": "en"}, drawing, revision=4),
                {**user(3), "x_mood": "good"},
            ],
        ),
    ]


def _unknown_variants() -> list[Plain]:
    return [
        case(
            "variants that change no state, known and unknown, only count",
            "P2 L3 L5 T5",
            got(snapshot(0, agent(2, text("a")), turn="t1")),
            got(mutation(1, "file_diff", **FILE_DIFF)),
            got(mutation(2, "warning", **OVERLOADED)),
            got(mutation(3, "x-weather", type="rain", message_id="m2", revision=2)),
            got(mutation(4, "session", type="x-color", color="red")),
            got(mutation(5, "turn", type="x-paused", turn_id="t1")),
            got(delta(6, 2, "b")),
            status="live",
            seq=6,
            session=session(),
            turn=started("t1"),
            messages=[agent(2, text("ab"), revision=2)],
        ),
        case(
            "a delta of an unknown type counts as a revision and appends nothing",
            "P2 S5",
            got(snapshot(0, agent(2, text("a")))),
            got(delta(1, 2, "?", kind="x-caption")),
            got(delta(2, 3, "b")),
            status="live",
            messages=[agent(2, text("ab"), revision=3)],
        ),
        case(
            "unknown ops are ignored",
            "P2",
            got(snapshot(0, agent(2, text("a")))),
            got({"op": "x-presence", "session_id": "s1", "seq": 1}, "ignored"),
            got({"op": "tick"}, "ignored"),
            status="live",
            seq=0,
        ),
    ]


def _unknown_interactions() -> list[Plain]:
    return [
        case(
            "an Interaction of an unknown type with unknown fields is shown all the same",
            "P2 P7",
            got(snapshot(0, agent(2, WAITING))),
            got(part(1, 2, interaction("pending", 2, interaction_type="x-signature", x_pad=True))),
            status="live",
            interactions=[pending(2, interaction_type="x-signature")],
        ),
        case(
            "an Interaction with an unknown status is not pending",
            "P2 P7",
            got(snapshot(0, agent(2, WAITING, interaction("pending", 1)), interactions=[pending(1)])),
            got(part(1, 2, interaction("x-delegated", 2))),
            status="live",
            interactions=[],
        ),
    ]
