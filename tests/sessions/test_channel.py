"""Who is told of Mutations: everyone who watches, once for all that share a listener (Z6, L1, W5)."""

import pytest

from turnwire.sessions.channel import Audience, Channel, EndReason, Listener, Published, SnapshotFrames
from turnwire_protocol.mutations import DeltaMutation


class Ear:
    """A listener that keeps the numbers it was told."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def published(self, item: Published) -> None:
        self.heard.append(item.seq)


class Sharer:
    """A watcher that lets another listen."""

    def __init__(self, ear: Ear) -> None:
        self.ear = ear

    @property
    def listener(self) -> Listener:
        return self.ear

    def joined(self, snapshot: SnapshotFrames) -> None: ...

    def restarted(self, session_id: str) -> None: ...

    def ended(self, session_id: str, reason: EndReason) -> None: ...


def channel_of(*sharers: Sharer, audience: Audience = "visible") -> Channel:
    channel = Channel("s", "epoch-1")
    for sharer in sharers:
        channel.add(sharer, audience)
    return channel


def say(channel: Channel, *, internal: bool = False) -> None:
    mutation = DeltaMutation(
        mutation_id="m", session_id="s", created_at=1, type="text", message_id="x", revision=1, part_id="p", delta="."
    )
    channel.publish(mutation, internal=internal)


def test_Z6_a_mutation_is_told_once_for_all_who_share_a_listener() -> None:
    shared, alone = Ear(), Ear()
    channel = channel_of(Sharer(shared), Sharer(shared), Sharer(alone))
    say(channel)
    say(channel)
    assert (shared.heard, alone.heard) == ([1, 2], [1, 2])


def test_L1_a_listener_is_told_until_the_last_who_shares_it_has_left() -> None:
    ear = Ear()
    first, last = Sharer(ear), Sharer(ear)
    channel = channel_of(first, last)
    channel.remove(first)
    channel.remove(first)
    say(channel)
    assert ear.heard == [1]
    channel.remove(last)
    say(channel)
    assert ear.heard == [1]


def test_W5_whoever_is_added_again_listens_by_its_new_audience_and_listener_only() -> None:
    old, new = Ear(), Ear()
    mover, stayer = Sharer(old), Sharer(old)
    channel = channel_of(mover, stayer)
    mover.ear = new
    channel.add(mover, "all")
    say(channel, internal=True)
    say(channel)
    assert (old.heard, new.heard) == ([1], [1, 2])
    channel.add(mover, "visible")
    say(channel)
    assert (old.heard, new.heard) == ([1, 2], [1, 2, 2])


@pytest.mark.parametrize("how", ["restarted", "ended"])
def test_W7_nobody_is_told_of_what_comes_after_the_end(how: str) -> None:
    ear = Ear()
    sharer = Sharer(ear)
    channel = channel_of(sharer, Sharer(ear))
    if how == "restarted":
        channel.restarted()
    else:
        channel.end("deleted")
    say(channel)
    assert ear.heard == []
    channel.add(sharer, "visible")
    say(channel)
    assert ear.heard == [2]
