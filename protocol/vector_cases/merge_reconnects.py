"""Reconnects within an epoch, and restarts of the server, which begin another (W7; E1, E2)."""

from typing import Any

from vector_cases.frames import (
    DISCONNECTED,
    NEWEST,
    Plain,
    agent,
    answer,
    answer_at,
    case,
    delta,
    got,
    letter,
    message,
    page,
    pending,
    reload,
    snapshot,
    snapshot_at,
    started,
    text,
    user,
    users,
)

OLDER = [user(1, turn_id="t0"), agent(2, text("old"), state="done", turn_id="t0", revision=4)]
COMPACTING = {
    "part_id": "p1",
    "sequence": 1,
    "type": "action",
    "action_id": "a1",
    "action_type": "context-compaction",
    "state": "running",
    "title": "Compacting",
}


def _reconnect(name: str, rules: str, before: Plain, after: Plain, **expect: Any) -> Plain:
    """A view that loses its connection after one snapshot and gets another by the next."""
    return case(name, rules, got(before), DISCONNECTED, got(after), status="live", **expect)


def reconnects() -> list[Plain]:
    lost = case(
        "a lost connection keeps the state in sight",
        "W7 T4",
        got(snapshot_at(5, turn="t1")),
        DISCONNECTED,
        status="stale",
        epoch="e1",
        seq=5,
        messages=[answer_at(5)],
        turn=started("t1"),
    )
    interactions = _reconnect(
        "the Interactions of the snapshot replace those of the view",
        "W7 A4 P7",
        snapshot_at(5, interactions=[pending(1)]),
        snapshot(6, answer_at(5), interactions=[pending(1, interaction_id="i2")]),
        interactions=[pending(1, interaction_id="i2")],
    )
    return [lost, *_history_kept(), *_history_replaced(), *_history_gone(), *_received_meanwhile(), interactions]


def _history_kept() -> list[Plain]:
    new = agent(4, text("new"), revision=2)
    return [
        _reconnect(
            "a reconnect within one epoch merges by message_id and revision and keeps older history",
            "W7",
            snapshot(5, *OLDER, user(3)),
            snapshot(9, user(3), new, turn="t1"),
            seq=9,
            messages=[*OLDER, user(3), new],
            total=4,
        ),
        _reconnect(
            "older history is kept with the cursor that leads on below it",
            "W7 M3",
            snapshot(5, of=NEWEST),
            snapshot(9, of=page(*users(8, 9), next_before=8)),
            messages=users(7, 9),
            total=9,
            has_more=True,
            next_before_sequence=7,
        ),
    ]


def _history_replaced() -> list[Plain]:
    changed = user(2, text("changed"), revision=5)
    return [
        _reconnect(
            "older history is dropped when Messages in between may be missing",
            "W7 M3",
            snapshot(5, *OLDER),
            snapshot(99, of=page(*users(41, 42), next_before=41)),
            seq=99,
            messages=users(41, 42),
            total=42,
            has_more=True,
            next_before_sequence=41,
        ),
        _reconnect(
            "a snapshot that reaches further down than the view brings its own cursor",
            "W7 M3",
            snapshot(5, of=NEWEST),
            snapshot(9, *users(1, 9)),
            messages=users(1, 9),
            has_more=False,
            next_before_sequence=None,
        ),
        _may_have_changed("it was streaming", agent(2, text("a"))),
        _may_have_changed("its Turn was running", agent(2, text("a"), state="done"), turn="t1"),
        _may_have_changed("its Action was running", agent(2, COMPACTING, state="done")),
        case(
            "a single old Message that changed does not count as history",
            "W7 M3",
            got(snapshot(5, of=NEWEST)),
            got(message(6, changed)),
            DISCONNECTED,
            got(snapshot(9, of=page(*users(5, 8), next_before=5))),
            status="live",
            messages=[changed, *users(5, 8)],
            has_more=True,
            next_before_sequence=5,
        ),
    ]


def _may_have_changed(why: str, old: Plain, turn: str | None = None) -> Plain:
    last, new = user(3, turn_id="t2"), user(4, turn_id="t3")
    return _reconnect(
        f"older history is dropped when a Message in it may have changed unseen: {why}",
        "W7 S5",
        snapshot(5, user(1), old, last, turn=turn),
        snapshot(9, of=page(last, new, next_before=3)),
        messages=[last, new],
        has_more=True,
        next_before_sequence=3,
    )


def _history_gone() -> list[Plain]:
    return [
        _reconnect(
            "a Message that the snapshot no longer holds is gone",
            "W7",
            snapshot(5, *OLDER, user(3)),
            snapshot(9, *OLDER),
            messages=OLDER,
            total=2,
        ),
        _reconnect(
            "an empty page replaces everything",
            "W7",
            snapshot(5, *OLDER),
            snapshot(9),
            messages=[],
            total=0,
        ),
    ]


def _received_meanwhile() -> list[Plain]:
    return [
        case(
            "what was received before the connection was lost is not used after it",
            "W7 E2",
            got(snapshot_at(5)),
            got(letter(7), "reload"),
            got(letter(8), "buffered"),
            DISCONNECTED,
            got(snapshot_at(7)),
            status="live",
            seq=7,
            messages=[answer_at(7)],
        ),
        case(
            "Mutations that outrun the snapshot after a reconnect wait for it",
            "W7 J1",
            got(snapshot_at(5)),
            DISCONNECTED,
            got(letter(7), "buffered"),
            got(snapshot_at(6)),
            status="live",
            seq=7,
            messages=[answer_at(7)],
        ),
    ]


# ------------------------------------------------------------------------------------------------------------ epochs

STREAMED = [user(1, turn_id="t0"), agent(2, text("streamed before", state="streaming"), revision=900)]
RECOVERED = agent(2, text("stored", state="done"), revision=2**30 + 5, state="done")


def epochs() -> list[Plain]:
    return [*_reconnects_to_another(), *_another_on_the_same_connection()]


def _reconnects_to_another() -> list[Plain]:
    return [
        _reconnect(
            "a new epoch replaces everything, also where its counters are smaller",
            "E1 W7 S6",
            snapshot(812, *STREAMED, turn="t1", queue=[{"turn_id": "t2", "message_id": "m3"}]),
            snapshot(0, user(1, turn_id="t0"), RECOVERED, epoch="e2"),
            epoch="e2",
            seq=0,
            messages=[user(1, turn_id="t0"), RECOVERED],
            turn=None,
            queue=[],
        ),
        _reconnect(
            "a new epoch replaces a Message that the view held at a greater revision",
            "E1 W7",
            snapshot(812, *STREAMED),
            snapshot(3, agent(2, text("other"), revision=7), epoch="e2"),
            messages=[agent(2, text("other"), revision=7)],
        ),
        _reconnect(
            "a new epoch drops older history",
            "E1 W7",
            snapshot(5, *users(1, 2)),
            snapshot(1, of=page(user(2), next_before=2), epoch="e2"),
            messages=[user(2)],
            has_more=True,
            next_before_sequence=2,
        ),
        case(
            "numbers from before the restart filter nothing of the new epoch",
            "E2 W7",
            got(snapshot(812, *STREAMED)),
            DISCONNECTED,
            got(delta(1, 2, "b", epoch="e2"), "buffered"),
            got(snapshot(0, answer("a", 1), epoch="e2")),
            got(delta(2, 3, "c", epoch="e2")),
            status="live",
            epoch="e2",
            seq=2,
            messages=[answer("abc", 3)],
        ),
    ]


def _another_on_the_same_connection() -> list[Plain]:
    return [
        case(
            "a Session that was restarted under a connection that stands",
            "E1 W6",
            got(snapshot(812, *STREAMED)),
            got(reload("restarted"), "reload"),
            got(snapshot(0, RECOVERED, epoch="e2")),
            status="live",
            epoch="e2",
            seq=0,
            messages=[RECOVERED],
        ),
        case(
            "a live view takes a snapshot of another epoch as it comes",
            "E1 W7",
            got(snapshot(812, *STREAMED)),
            got(snapshot(3, RECOVERED, epoch="e2")),
            status="live",
            epoch="e2",
            seq=3,
            messages=[RECOVERED],
        ),
        case(
            "a Mutation of another epoch that waited for the snapshot asks for a reload",
            "E2 W5",
            got(letter(6), "buffered"),
            got(snapshot_at(5, epoch="e2"), "reload"),
            status="resyncing",
            epoch="e2",
            seq=5,
            messages=[answer_at(5)],
        ),
    ]
