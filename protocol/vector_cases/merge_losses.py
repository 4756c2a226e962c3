"""Gaps, `reload`, and what a view is when something ended it (W5, W6)."""

from vector_cases.frames import (
    DISCONNECTED,
    Plain,
    answer_at,
    case,
    delta,
    got,
    letter,
    mutation,
    reload,
    session,
    snapshot,
    snapshot_at,
    unsubscribed,
    user,
)


def gaps() -> list[Plain]:
    return [*_found_live(), *_found_behind_a_snapshot(), *_nothing_new(), *_of_something_else()]


def _found_live() -> list[Plain]:
    return [
        case(
            "a seq that leaves one out asks for a reload once and changes nothing",
            "W5",
            got(snapshot_at(5)),
            got(letter(7), "reload"),
            got(letter(8), "buffered"),
            got(letter(10), "buffered"),
            status="resyncing",
            epoch="e1",
            seq=5,
            messages=[answer_at(5)],
        ),
        case(
            "the snapshot after a gap, and what was received while waiting for it",
            "W5 W6",
            got(snapshot_at(5)),
            got(letter(7), "reload"),
            got(letter(8), "buffered"),
            got(letter(9), "buffered"),
            got(snapshot_at(8)),
            got(letter(10)),
            status="live",
            seq=10,
            messages=[answer_at(10)],
        ),
    ]


def _found_behind_a_snapshot() -> list[Plain]:
    found = [
        got(letter(6), "buffered"),
        got(letter(8), "buffered"),
        got(letter(9), "buffered"),
        got(snapshot_at(5), "reload"),
        got(letter(10), "buffered"),
    ]
    return [
        case(
            "a gap among the Mutations received before the snapshot is found after it",
            "W5",
            *found,
            status="resyncing",
            seq=6,
            messages=[answer_at(6)],
        ),
        case(
            "after a gap found behind the snapshot the next snapshot heals",
            "W5",
            *found,
            got(snapshot_at(9)),
            status="live",
            seq=10,
            messages=[answer_at(10)],
        ),
    ]


def _nothing_new() -> list[Plain]:
    return [
        case(
            "a frame that comes twice is dropped the second time",
            "W5",
            got(snapshot_at(5)),
            got(letter(6)),
            got(letter(6), "ignored"),
            got(letter(5), "ignored"),
            got(mutation(7, "session", type="title", title="Other")),
            got(mutation(7, "session", type="title", title="Other"), "ignored"),
            status="live",
            seq=7,
            messages=[answer_at(6)],
        ),
        case(
            "a live view ignores a snapshot that is behind it",
            "W5",
            got(snapshot_at(5)),
            got(letter(6)),
            got(snapshot_at(5), "ignored"),
            got(letter(7)),
            status="live",
            seq=7,
            messages=[answer_at(7)],
        ),
        case(
            "a live view takes a snapshot at its own seq",
            "W4 W5",
            got(snapshot_at(5)),
            got(snapshot_at(5, about=session(title="Other"))),
            got(letter(6)),
            status="live",
            seq=6,
            messages=[answer_at(6)],
            session=session(title="Other"),
        ),
    ]


def _of_something_else() -> list[Plain]:
    return [
        case(
            "another epoch without a snapshot asks for a reload",
            "W5 W7",
            got(snapshot_at(5)),
            got(letter(6, epoch="e2"), "reload"),
            status="resyncing",
            epoch="e1",
            seq=5,
            messages=[answer_at(5)],
        ),
        case(
            "frames of another Session are ignored",
            "W1",
            got(snapshot_at(5)),
            got({**letter(6), "session_id": "s2"}, "ignored"),
            got({**reload(), "session_id": "s2"}, "ignored"),
            got({**unsubscribed(), "session_id": "s2"}, "ignored"),
            status="live",
            seq=5,
            messages=[answer_at(5)],
        ),
    ]


def statuses() -> list[Plain]:
    nothing = case(
        "a view that has received nothing",
        "W4",
        status="loading",
        messages=[],
        turn=None,
        queue=[],
        interactions=[],
    )
    return [nothing, *_reloaded(), _reloaded_between_parts(), *_disconnected(), *_ended()]


def _reloaded() -> list[Plain]:
    return [
        case(
            "`reload` while loading throws away what waited",
            "W6",
            got(delta(9, 9, "x"), "buffered"),
            got(reload(), "reload"),
            got(snapshot_at(5)),
            status="live",
            seq=5,
            messages=[answer_at(5)],
        ),
        case(
            "`reload` while live keeps the state in sight",
            "W6",
            got(snapshot_at(5)),
            got(reload(), "reload"),
            status="resyncing",
            seq=5,
            messages=[answer_at(5)],
        ),
        case(
            "`reload` while resyncing throws away what waited and is answered again",
            "W6",
            got(snapshot_at(5)),
            got(letter(7), "reload"),
            got(letter(8), "buffered"),
            got(reload(), "reload"),
            got(snapshot_at(7)),
            status="live",
            seq=7,
            messages=[answer_at(7)],
        ),
        case(
            "`reload` while stale",
            "W6 W7",
            got(snapshot_at(5)),
            DISCONNECTED,
            got(reload(), "reload"),
            status="stale",
            messages=[answer_at(5)],
        ),
    ]


def _reloaded_between_parts() -> Plain:
    return case(
        "`reload` throws away a snapshot that is half there",
        "W6 W10",
        got(snapshot(5, user(1), part=1, parts=2), "buffered"),
        got(reload(), "reload"),
        got(snapshot(5, user(2), part=2, parts=2), "ignored"),
        status="loading",
        messages=[],
    )


def _disconnected() -> list[Plain]:
    return [
        case(
            "a connection lost while loading leaves the view loading",
            "W7",
            got(letter(6), "buffered"),
            DISCONNECTED,
            got(snapshot_at(5)),
            status="live",
            seq=5,
            messages=[answer_at(5)],
        ),
        case(
            "a connection lost while resyncing",
            "W7",
            got(snapshot_at(5)),
            got(reload(), "reload"),
            DISCONNECTED,
            status="stale",
            seq=5,
        ),
    ]


def _ended() -> list[Plain]:
    return [
        case(
            "a Session that is no longer to be watched",
            "W4 L1",
            got(snapshot_at(5)),
            got(unsubscribed()),
            got(letter(6), "ignored"),
            got(snapshot(9, user(1)), "ignored"),
            got(reload(), "ignored"),
            DISCONNECTED,
            status="error",
            reason="deleted",
            messages=[answer_at(5)],
        ),
        case(
            "a Session that may not be watched at all",
            "W4",
            got(unsubscribed("forbidden")),
            status="error",
            reason="forbidden",
            messages=[],
        ),
    ]
