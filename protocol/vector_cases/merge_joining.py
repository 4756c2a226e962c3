"""Joining a Session in the middle of an answer (W4, W5; J1-J8)."""

from vector_cases.frames import (
    NOW,
    Plain,
    agent,
    answer,
    case,
    delta,
    got,
    message,
    mutation,
    part,
    pending,
    reasoning,
    snapshot,
    started,
    text,
    tool,
    turn_finish,
    turn_start,
    user,
)
from vector_cases.merge_output import output, unfit

FRAGMENTS = ("Hé", "llo, ", "wörld ", "🌍", "!\n")
"""Five deltas, with characters of one to four bytes: none may be doubled, lost or cut."""


def _answer(fragments: int) -> Plain:
    return answer("".join(FRAGMENTS[:fragments]), 1 + fragments)


def _interleaving(missed: int, held: int, before: int) -> Plain:
    """One order of arrival: `missed` deltas came before the registration, the snapshot holds `held` of them and
    arrives after `before` of those that are received."""
    received = [(number, delta(number + 2, number + 1, FRAGMENTS[number - 1])) for number in range(missed + 1, 6)]
    steps = [got(frame, "buffered") for _, frame in received[:before]]
    steps.append(got(snapshot(2 + held, user(1), _answer(held), turn="t1")))
    steps.extend(got(frame, "ignored" if number <= held else "applied") for number, frame in received[before:])
    return case(
        f"{missed} deltas before the registration, {held} in the snapshot, {before} received before it",
        "J1 W4 W5 S5",
        *steps,
        status="live",
        epoch="e1",
        seq=7,
        messages=[user(1), _answer(5)],
        turn=started("t1"),
        total=2,
    )


def interleavings() -> list[Plain]:
    return [
        _interleaving(missed, held, before)
        for missed in range(6)
        for held in range(missed, 6)
        for before in range(6 - missed)
    ]


def _joins_at(seq: int) -> Plain:
    """A client that joins after `seq` of the Mutations below, and follows the rest."""
    timeline = [
        delta(1, 2, "1 2 "),
        part(2, 3, reasoning("", number=2)),
        delta(3, 4, "hm", number=2, kind="reasoning"),
        delta(4, 5, "3 4 "),
        part(5, 6, tool("input-streaming", number=3)),
        delta(6, 7, '{"a":', number=3, kind="tool_input"),
        delta(7, 8, "5"),
        delta(8, 9, "1}", number=3, kind="tool_input"),
    ]
    texts = ["", "1 2 ", "1 2 ", "1 2 ", "1 2 3 4 ", "1 2 3 4 ", "1 2 3 4 ", "1 2 3 4 5", "1 2 3 4 5"]
    parts = [text(texts[seq], state="streaming")]
    if seq >= 2:
        parts.append(reasoning("hm" if seq >= 3 else "", number=2))
    if seq >= 5:
        inputs = {} if seq < 6 else {"input_text": '{"a":' if seq < 8 else '{"a":1}'}
        parts.append(tool("input-streaming", number=3, **inputs))
    end = [text("1 2 3 4 5", state="streaming"), reasoning("hm", number=2)]
    return case(
        f"joins after Mutation {seq} of 8, with three Parts growing side by side",
        "J2 W4 E5",
        got(snapshot(seq, agent(2, *parts, revision=1 + seq), turn="t1")),
        *[got(frame) for frame in timeline[seq:]],
        status="live",
        seq=8,
        messages=[agent(2, *end, tool("input-streaming", number=3, input_text='{"a":1}'), revision=9)],
    )


def joins() -> list[Plain]:
    return [_joins_at(seq) for seq in range(9)]


def _stopped() -> list[Plain]:
    reason = {"scope": "turn", "code": "stopped", "message": "Stopped.", "recoverable": True}
    error = {"part_id": "p2", "sequence": 2, "type": "error", **reason}
    closed = agent(2, text("half a sen", state="done"), error, revision=4, state="done")
    end: Plain = {"status": "live", "seq": 5, "messages": [closed], "turn": None, "total": 2}
    live = case(
        "a Turn that is stopped before its text Part ends, seen live",
        "J4 S8 T3",
        got(snapshot(1, answer("half ", 1), turn="t1")),
        got(delta(2, 2, "a ")),
        got(delta(3, 3, "sen")),
        got(message(4, closed)),
        got(turn_finish(5, "t1", "stopped")),
        **end,
    )
    joined = case(
        "a Turn that was stopped before its text Part ended, seen by a client that joins afterwards",
        "J4 S8 T3",
        got(snapshot(5, closed)),
        **end,
    )
    return [live, joined]


def _snapshots() -> list[Plain]:
    half = answer("so far", 12)
    queue = [{"turn_id": "t2", "message_id": "m3"}]
    return [
        case(
            "a snapshot alone is all that is needed to show a Session",
            "J5 W4",
            got(snapshot(41, user(1), half, turn="t1", queue=queue, interactions=[pending(11)])),
            status="live",
            reason=None,
            epoch="e1",
            seq=41,
            messages=[user(1), half],
            turn=started("t1"),
            queue=queue,
            interactions=[pending(11)],
            total=2,
            has_more=False,
            next_before_sequence=None,
        ),
        case(
            "a Session that was just created and holds nothing can be opened",
            "J9 W4",
            got(snapshot(0)),
            status="live",
            seq=0,
            messages=[],
            turn=None,
            queue=[],
            interactions=[],
            total=0,
            has_more=False,
            next_before_sequence=None,
        ),
    ]


def _finishing() -> list[Plain]:
    """A client that joins at every point of a Turn that begins, answers and ends."""
    done = agent(2, text("four", state="done"), revision=3, state="done")
    timeline = [
        message(1, user(1)),
        turn_start(2, "t1"),
        message(3, answer("", 1)),
        delta(4, 2, "four"),
        message(5, done),
        turn_finish(6, "t1"),
        mutation(7, "session", type="title", title="Sums"),
    ]
    waiting = [{"turn_id": "t1", "message_id": "m1"}]
    running = {"turn": started("t1", NOW + 2)}
    joined = [
        snapshot(0),
        snapshot(1, user(1), queue=waiting),
        {**snapshot(2, user(1)), **running},
        {**snapshot(3, user(1), answer("", 1)), **running},
        {**snapshot(4, user(1), answer("four", 2)), **running},
        {**snapshot(5, user(1), done), **running},
        snapshot(6, user(1), done),
    ]
    return [
        case(
            f"joins after Mutation {seq} of a Turn that comes to its end",
            "J6 W4 T2",
            got(first),
            *[got(frame) for frame in timeline[seq:]],
            status="live",
            seq=7,
            messages=[user(1), done],
            turn=None,
            queue=[],
            total=2,
        )
        for seq, first in enumerate(joined)
    ]


def joining() -> list[Plain]:
    return [*_snapshots(), *output(), *_finishing(), *_stopped(), *unfit()]
