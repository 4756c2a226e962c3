"""Where output goes in a view, and output that does not fit (J3, J7, J8; S3-S5, L4)."""

from typing import Any

from vector_cases.frames import (
    Plain,
    agent,
    answer,
    case,
    delta,
    got,
    message,
    part,
    snapshot,
    snapshot_at,
    text,
    user,
)

EMPTY = answer("", 1)


def output() -> list[Plain]:
    return [_by_name(), *_replaced(), _by_sequence()]


def _by_name() -> Plain:
    other = user(3, turn_id="t2")
    return case(
        "output goes to the Message and the Part that it names, not to the last ones",
        "J3 L4",
        got(
            snapshot(
                1,
                agent(2, text("a", state="streaming"), text("b", number=2, state="streaming"), revision=2),
                other,
                turn="t1",
            )
        ),
        got(delta(2, 3, "A")),
        got(delta(3, 4, "B", number=2)),
        got(part(4, 5, text("z", number=3, state="streaming"))),
        status="live",
        messages=[
            agent(
                2,
                text("aA", state="streaming"),
                text("bB", number=2, state="streaming"),
                text("z", number=3, state="streaming"),
                revision=5,
            ),
            other,
        ],
    )


def _replaced() -> list[Plain]:
    return [
        case(
            "a whole Part between two deltas is what the second one appends to",
            "J8 W6 S3",
            got(snapshot(1, EMPTY)),
            got(delta(2, 2, "helo")),
            got(part(3, 3, text("hello", state="streaming"))),
            got(delta(4, 4, " there")),
            got(part(5, 5, text("hello there", state="done"))),
            status="live",
            seq=5,
            messages=[agent(2, text("hello there", state="done"), revision=5)],
        ),
        case(
            "a `message` between two deltas is what the second one appends to",
            "J8 W6 S3",
            got(snapshot(1, EMPTY)),
            got(delta(2, 2, "half a step")),
            got(message(3, answer("", 3))),
            got(delta(4, 4, "again")),
            status="live",
            messages=[answer("again", 4)],
        ),
    ]


def _by_sequence() -> Plain:
    fifth, ninth = text("b", number=5), text("c", number=9)
    return case(
        "Parts stand by their sequence, in whatever order they come",
        "P1 L4",
        got(snapshot(1, agent(2, text("a"), revision=1))),
        got(part(2, 2, ninth)),
        got(part(3, 3, fifth)),
        status="live",
        messages=[agent(2, text("a"), fifth, ninth, revision=3)],
    )


# --------------------------------------------------------------------------------------------- output that does not fit


def unfit() -> list[Plain]:
    return [
        _gap("a delta of a Part that is not known", "J7 L4", delta(2, 2, "lost", number=9), messages=[EMPTY]),
        _gap("a delta of a Message that is not known", "J7 S4", delta(2, 2, "lost", message_id="m9"), messages=[EMPTY]),
        _gap("a Part of a Message that is not known", "J7 S4", part(2, 2, text("lost", number=2), message_id="m9")),
        _gap("a delta whose revision leaves one out", "S5 W5", delta(2, 3, "lost"), messages=[EMPTY]),
        *_known_already(),
    ]


def _gap(what: str, rules: str, frame: Plain, **expect: Any) -> Plain:
    name = f"{what} is a gap"
    return case(name, rules, got(snapshot(1, EMPTY)), got(frame, "reload"), status="resyncing", seq=1, **expect)


def _known_already() -> list[Plain]:
    held = answer("ab", 3)
    return [
        case(
            "a delta at or below the revision of its Message is dropped and its seq counts",
            "S5 W5",
            got(snapshot(1, held)),
            got(delta(2, 2, "b"), "ignored"),
            got(delta(3, 3, "b"), "ignored"),
            got(delta(4, 4, "c")),
            status="live",
            seq=4,
            messages=[answer("abc", 4)],
        ),
        case(
            "a Part at or below the revision of its Message is dropped",
            "S5 W5",
            got(snapshot(1, held)),
            got(part(2, 3, text("a", state="streaming")), "ignored"),
            status="live",
            seq=2,
            messages=[held],
        ),
    ]


def checkpoints() -> list[Plain]:
    """A `message` against what the view holds, and the other way round."""
    ahead = agent(2, text("ahead", state="done"), revision=9, state="done")
    return [
        case(
            "a `message` at a greater revision replaces the Message",
            "S3 S5",
            got(snapshot_at(5)),
            got(message(6, ahead)),
            status="live",
            seq=6,
            messages=[ahead],
        ),
        case(
            "a `message` at or below the revision that is held is dropped and its seq counts",
            "S5 W5",
            got(snapshot(5, ahead)),
            got(message(6, agent(2, text("behind"), revision=9)), "ignored"),
            got(message(7, agent(2, text("behind"), revision=8)), "ignored"),
            status="live",
            seq=7,
            messages=[ahead],
        ),
        case(
            "after a `message` deltas go on from its revision",
            "S5",
            got(snapshot_at(5)),
            got(message(6, answer("ab", 4))),
            got(delta(7, 5, "c")),
            got(part(8, 6, text("d", number=2))),
            status="live",
            seq=8,
            messages=[agent(2, text("abc", state="streaming"), text("d", number=2), revision=6)],
        ),
    ]
