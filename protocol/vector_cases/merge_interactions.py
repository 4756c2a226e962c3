"""Interactions that are pending, and what ends or changes them (P6, P7, A4)."""

from vector_cases.frames import (
    NOW,
    WAITING,
    Plain,
    agent,
    case,
    delta,
    got,
    interaction,
    message,
    part,
    pending,
    snapshot,
    text,
    tool,
)

ASKED = agent(2, WAITING, interaction("pending", 3), revision=3)
RESOLVED = interaction("resolved", 4, response={"decision": "approved"}, resolved_by="ann", resolved_at=NOW)


def approvals() -> list[Plain]:
    return [*_asked(), *_taken_out(), *_changed()]


def _asked() -> list[Plain]:
    ready = got(snapshot(0, agent(2, tool("ready"), revision=1)))
    return [
        case(
            "a Tool and its approval in two Mutations with two revisions: the card is there",
            "J10 P6",
            ready,
            got(part(1, 2, WAITING)),
            got(part(2, 3, interaction("pending", 3))),
            status="live",
            messages=[ASKED],
            interactions=[pending(3)],
        ),
        case(
            "a Tool and its approval in one Mutation: the card is there",
            "J10 P6",
            ready,
            got(message(1, ASKED)),
            status="live",
            messages=[ASKED],
            interactions=[pending(3)],
        ),
        case(
            "of two changes with one revision the second is dropped, so that no server may send them",
            "J10 P6 S5",
            ready,
            got(part(1, 2, WAITING)),
            got(part(2, 2, interaction("pending", 2)), "ignored"),
            status="live",
            messages=[agent(2, WAITING, revision=2)],
            interactions=[],
        ),
    ]


def _taken_out() -> list[Plain]:
    other = pending(1, "m1", interaction_id="i0")
    return [
        case(
            "an answered approval is taken out",
            "P7 A4",
            got(snapshot(0, ASKED, interactions=[pending(3)])),
            got(part(1, 4, RESOLVED)),
            status="live",
            messages=[agent(2, WAITING, RESOLVED, revision=4)],
            interactions=[],
        ),
        case(
            "an approval that ends with its Message is taken out",
            "P7 T3 Q5",
            got(snapshot(0, ASKED, interactions=[pending(3)])),
            got(message(1, agent(2, tool("failed", error="stopped"), interaction("cancelled", 4), revision=4))),
            status="live",
            interactions=[],
        ),
        case(
            "an approval whose Part is rolled back is taken out",
            "T6 P7",
            got(snapshot(0, ASKED, interactions=[pending(3), other])),
            got(message(1, agent(2, tool("ready"), revision=4))),
            status="live",
            interactions=[other],
        ),
    ]


def _changed() -> list[Plain]:
    second = pending(3, part_id="p3", interaction_id="i2")
    return [
        case(
            "text streams on while a card waits, and the card keeps its own revision",
            "P7 E5",
            got(snapshot(0, agent(2, WAITING, interaction("pending", 3), text("", number=3), revision=3))),
            got(part(1, 4, interaction("pending", 4))),
            got(delta(2, 5, "meanwhile", number=3)),
            status="live",
            messages=[agent(2, WAITING, interaction("pending", 4), text("meanwhile", number=3), revision=5)],
            interactions=[pending(4)],
        ),
        case(
            "a card that changes keeps its place",
            "P7",
            got(snapshot(0, ASKED, interactions=[pending(3), second])),
            got(part(1, 4, interaction("pending", 4))),
            got(part(2, 5, interaction("pending", 5, number=4, interaction_id="i3"))),
            status="live",
            interactions=[pending(4), second, pending(5, part_id="p4", interaction_id="i3")],
        ),
        case(
            "a change that is dropped brings no card back",
            "P7 S5",
            got(snapshot(0, agent(2, WAITING, RESOLVED, revision=4))),
            got(part(1, 3, interaction("pending", 3)), "ignored"),
            status="live",
            interactions=[],
        ),
    ]
