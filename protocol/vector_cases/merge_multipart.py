"""A snapshot that comes in several parts, and what may come between them (W10)."""

from typing import Any

from vector_cases.frames import (
    DISCONNECTED,
    Plain,
    answer_at,
    case,
    got,
    letter,
    page,
    pending,
    reload,
    snapshot,
    started,
    turn_start,
    user,
)

MESSAGES = [user(1), user(2), answer_at(5, sequence=3)]


def _part(number: int, seq: int = 5, **more: Any) -> Plain:
    """One of three parts of a snapshot, with one Message in each."""
    items = MESSAGES[number - 1 : number]
    whole = page(*MESSAGES, total=9, next_before=1)
    return snapshot(seq, of={**whole, "items": items}, part=number, parts=3, turn="t1", **more)


FIRST, SECOND, THIRD = _part(1), _part(2), _part(3)


def _shown(name: str, rules: str, *steps: Plain, seq: int = 5, **more: Any) -> Plain:
    """A view that shows the whole snapshot."""
    return case(
        name,
        rules,
        *steps,
        status="live",
        seq=seq,
        messages=MESSAGES,
        turn=started("t1"),
        total=9,
        has_more=True,
        next_before_sequence=1,
        **more,
    )


def multipart() -> list[Plain]:
    return [*_collected(), *_out_of_order(), *_of_another_snapshot(), _disconnected(), *_while_shown()]


def _collected() -> list[Plain]:
    queue = [{"turn_id": "t2", "message_id": "m4"}, {"turn_id": "t3", "message_id": "m5"}]
    interactions = [pending(1, "m3"), pending(1, "m3", interaction_id="i2")]
    return [
        _shown(
            "a snapshot in three parts",
            "W10 W4",
            got(FIRST, "buffered"),
            got(SECOND, "buffered"),
            got(THIRD),
        ),
        _shown(
            "the lists of all parts are joined in their order",
            "W10",
            got(_part(1, queue=queue[:1]), "buffered"),
            got(_part(2, interactions=interactions[:1]), "buffered"),
            got(_part(3, queue=queue[1:], interactions=interactions[1:])),
            queue=queue,
            interactions=interactions,
        ),
        case(
            "nothing of a snapshot is shown before its last part",
            "W10",
            got(FIRST, "buffered"),
            got(SECOND, "buffered"),
            status="loading",
            messages=[],
            turn=None,
        ),
        case(
            "Mutations between the parts are applied after the last one",
            "W10 W5",
            got(FIRST, "buffered"),
            got(letter(5, message_id="m3"), "buffered"),
            got(SECOND, "buffered"),
            got(letter(6, message_id="m3"), "buffered"),
            got(THIRD),
            got(letter(7, message_id="m3")),
            status="live",
            seq=7,
            messages=[user(1), user(2), answer_at(7, sequence=3)],
        ),
    ]


def _out_of_order() -> list[Plain]:
    return [
        case(
            "a part out of order throws the collection away",
            "W10",
            got(FIRST, "buffered"),
            got(THIRD, "ignored"),
            got(SECOND, "ignored"),
            got(THIRD, "ignored"),
            status="loading",
            messages=[],
        ),
        _shown(
            "after a part out of order the collection begins anew with part 1",
            "W10",
            got(SECOND, "ignored"),
            got(FIRST, "buffered"),
            got(THIRD, "ignored"),
            got(FIRST, "buffered"),
            got(SECOND, "buffered"),
            got(THIRD),
        ),
        case(
            "a part that comes twice throws the collection away",
            "W10",
            got(FIRST, "buffered"),
            got(FIRST, "buffered"),
            got(SECOND, "buffered"),
            got(SECOND, "ignored"),
            got(THIRD, "ignored"),
            status="loading",
        ),
    ]


def _of_another_snapshot() -> list[Plain]:
    return [
        case(
            "a part of another point throws the collection away",
            "W10",
            got(FIRST, "buffered"),
            got(_part(2, seq=6), "ignored"),
            got(THIRD, "ignored"),
            status="loading",
        ),
        case(
            "a part of another epoch throws the collection away",
            "W10",
            got(FIRST, "buffered"),
            got(_part(2, epoch="e2"), "ignored"),
            got(THIRD, "ignored"),
            status="loading",
        ),
        _shown(
            "part 1 of another point begins a new collection",
            "W10",
            got(FIRST, "buffered"),
            got(SECOND, "buffered"),
            got(_part(1, seq=8), "buffered"),
            got(_part(2, seq=8), "buffered"),
            got(_part(3, seq=8)),
            seq=8,
        ),
    ]


def _disconnected() -> Plain:
    return case(
        "a lost connection throws the collection away",
        "W10 W7",
        got(FIRST, "buffered"),
        got(SECOND, "buffered"),
        DISCONNECTED,
        got(THIRD, "ignored"),
        status="loading",
    )


def _while_shown() -> list[Plain]:
    return [
        case(
            "a live view moves past a snapshot in parts and ignores the rest of it",
            "W10 W5",
            got(snapshot(5, answer_at(5, sequence=3))),
            got(FIRST, "buffered"),
            got(letter(6, message_id="m3")),
            got(SECOND, "ignored"),
            got(THIRD, "ignored"),
            status="live",
            seq=6,
            messages=[answer_at(6, sequence=3)],
        ),
        case(
            "a resyncing view takes a snapshot in parts",
            "W10 W6",
            got(snapshot(2, user(1))),
            got(reload(), "reload"),
            got(FIRST, "buffered"),
            got(turn_start(6, "t9"), "buffered"),
            got(SECOND, "buffered"),
            got(THIRD),
            status="live",
            seq=6,
            messages=MESSAGES,
        ),
    ]
