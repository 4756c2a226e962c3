"""Older history that is added to a view (`messages`, M3)."""

from vector_cases.frames import (
    DISCONNECTED,
    NEWEST,
    Plain,
    added,
    agent,
    answer,
    case,
    delta,
    got,
    interaction,
    message,
    page,
    part,
    pending,
    reload,
    snapshot,
    text,
    tool,
    unsubscribed,
    user,
    users,
)


def pages() -> list[Plain]:
    return [*_reaching_down(), *_as_time_goes_on(), *_overlapping(), *_ahead(), _above(), *_not_taken()]


def _reaching_down() -> list[Plain]:
    return [
        case(
            "pages follow each other down to the first Message",
            "M3",
            got(snapshot(0, of=NEWEST)),
            added(page(*users(4, 6), total=8, next_before=4), before=7),
            added(page(*users(1, 3), total=8), before=4),
            status="live",
            messages=users(1, 8),
            total=8,
            has_more=False,
            next_before_sequence=None,
        ),
        case(
            "the cursor of a page that reaches further down becomes the view's",
            "M3",
            got(snapshot(0, of=NEWEST)),
            added(page(*users(4, 6), total=8, next_before=4), before=7),
            status="live",
            messages=users(4, 8),
            has_more=True,
            next_before_sequence=4,
        ),
        case(
            "an empty page says that nothing older is to be shown",
            "M3 M4",
            got(snapshot(0, of=NEWEST)),
            added(page(total=8), before=7),
            status="live",
            messages=users(7, 8),
            total=8,
            has_more=False,
            next_before_sequence=None,
        ),
    ]


def _as_time_goes_on() -> list[Plain]:
    changed = user(2, text("changed"), revision=5)
    return [
        case(
            "a Session goes on while older pages come",
            "M3",
            got(snapshot(0, of=NEWEST)),
            got(message(1, user(9))),
            added(page(*users(5, 6), total=9, next_before=5), before=7),
            got(message(2, agent(10, text("a")))),
            status="live",
            messages=[*users(5, 9), agent(10, text("a"))],
            total=10,
            next_before_sequence=5,
        ),
        case(
            "a stale view takes older pages too",
            "M3 W7",
            got(snapshot(0, of=NEWEST)),
            DISCONNECTED,
            added(page(user(6), total=8, next_before=6), before=7),
            status="stale",
            messages=users(6, 8),
            next_before_sequence=6,
        ),
        case(
            "a Message older than the cursor that changes does not hide the ones between",
            "M3 S3",
            got(snapshot(0, of=NEWEST)),
            got(message(1, changed)),
            added(page(*users(5, 6), total=8, next_before=5), before=7),
            added(page(*users(1, 4), total=8), before=5),
            status="live",
            messages=[user(1), changed, *users(3, 8)],
            has_more=False,
            next_before_sequence=None,
        ),
    ]


def _overlapping() -> list[Plain]:
    return [
        case(
            "a page that overlaps changes nothing that the view holds at the same or a greater revision",
            "M3 S5",
            got(snapshot(0, of=page(user(7), answer("abc", 4, sequence=8), next_before=7))),
            added(page(user(6), user(7, text("same")), agent(8, text("a"), revision=2), total=8, next_before=6)),
            got(delta(1, 5, "d", message_id="m8")),
            status="live",
            messages=[user(6), user(7), answer("abcd", 5, sequence=8)],
            next_before_sequence=6,
        ),
        case(
            "a page that does not reach further down leaves the cursor",
            "M3",
            got(snapshot(0, of=NEWEST)),
            added(page(user(8), total=8, next_before=8)),
            status="live",
            messages=users(7, 8),
            has_more=True,
            next_before_sequence=7,
        ),
    ]


def _ahead() -> list[Plain]:
    """Of a Message with an Interaction, which a page brings at a revision above that of the snapshot."""
    shown = snapshot(
        0,
        user(7),
        agent(8, tool("waiting-user"), interaction("pending", 3), revision=3),
        interactions=[pending(3, "m8")],
    )
    denied = (tool("failed", error="no"), interaction("denied", 5))
    ahead = agent(8, *denied, text("b", number=3), revision=5)
    return [
        case(
            "a Message at a greater revision is taken from a page, and the Mutations that led there are dropped",
            "M3 S5 P7",
            got(shown),
            added(page(user(7), ahead)),
            got(part(1, 4, interaction("denied", 4), message_id="m8"), "ignored"),
            got(part(2, 5, text("b", number=3), message_id="m8"), "ignored"),
            got(delta(3, 6, "c", number=3, message_id="m8")),
            status="live",
            seq=3,
            messages=[user(7), agent(8, *denied, text("bc", number=3), revision=6)],
            interactions=[],
        ),
        case(
            "a Message that a page brought ahead of the snapshot stays, with its Interactions",
            "W7 P7",
            got(shown),
            added(page(user(7), ahead)),
            DISCONNECTED,
            got({**shown, "seq": 1}),
            status="live",
            seq=1,
            messages=[user(7), ahead],
            interactions=[],
        ),
    ]


def _above() -> Plain:
    other = user(8, turn_id="t2")
    return case(
        "Messages above the newest one are left to the Mutations that bring them",
        "M3 T1",
        got(snapshot(0, user(7), turn="t1")),
        added(page(user(7), other)),
        got(message(1, other)),
        status="live",
        messages=[user(7), other],
        queue=[{"turn_id": "t2", "message_id": "m8"}],
        total=8,
    )


def _not_taken() -> list[Plain]:
    older = page(*users(1, 2), total=8)
    return [
        case(
            "a page that would leave a hole is ignored",
            "M3 W6",
            got(snapshot(0, of=NEWEST)),
            got(reload(), "reload"),
            got(snapshot(90, of=page(*users(98, 99), next_before=98))),
            added(page(*users(5, 6), total=8, next_before=5), before=7, effect="ignored"),
            status="live",
            messages=users(98, 99),
            total=99,
            has_more=True,
            next_before_sequence=98,
        ),
        case(
            "a view that is loading ignores pages",
            "M3",
            added(older, before=3, effect="ignored"),
            status="loading",
            messages=[],
        ),
        case(
            "a view without Messages ignores pages: whatever is new comes by Mutation",
            "M3",
            got(snapshot(0)),
            added(page(user(1)), effect="ignored"),
            got(message(1, user(1))),
            status="live",
            messages=[user(1)],
            total=1,
        ),
        case(
            "a view that has ended ignores pages",
            "M3",
            got(snapshot(0, of=NEWEST)),
            got(unsubscribed()),
            added(older, before=7, effect="ignored"),
            status="error",
            messages=users(7, 8),
        ),
    ]
