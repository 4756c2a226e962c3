"""The outbox against a plain model: what arrives is whole, in order, and honest about what was lost (W6)."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from turnwire.gateway.outbox import Outbox, OutboxLimits

LIMITS = OutboxLimits(outbox_bytes=400, snapshot_bytes=1200, low_water_bytes=60, join_bytes=100)


def packed(kind: str, session: str, number: int, size: int) -> bytes:
    """A frame that says what it is, and how long it is, so that a stream of them can be taken apart again."""
    head = f"{kind}:{session}:{number}:"
    return f"{len(head) + size:05d}{head}".encode() + b"." * size


Step: TypeAlias = tuple[object, ...]


def notice(session_id: str) -> bytes:
    return packed("reload", session_id, 0, 10)


def unpacked(data: bytes) -> list[tuple[str, str, int]]:
    """The whole frames in these bytes. Fails on anything that is not whole."""
    frames = []
    while data:
        length = int(data[:5])
        body = data[5 : 5 + length]
        assert len(body) == length, "a frame is cut"
        kind, session, number, filler = body.decode().split(":")
        assert set(filler) <= {"."}, "frames are mixed"
        frames.append((kind, session, int(number)))
        data = data[5 + length :]
    return frames


@dataclass
class Run:
    """An outbox, all bytes that it gave out, and what was put in.

    `direct`: its owner writes Mutations past it while it is quiet, of each no more than so many bytes.
    """

    direct: int = 0
    outbox: Outbox = field(default_factory=lambda: Outbox(LIMITS, notice))
    wire: bytes = b""
    number: int = 0
    published: dict[str, list[int]] = field(default_factory=dict)
    snapshots: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)

    def write(self, limit: int) -> None:
        head = self.outbox.head()
        if head is not None:
            count = min(limit, len(head))
            self.wire += bytes(head[:count])
            self.outbox.wrote(count)

    def drain(self) -> None:
        while self.outbox.head() is not None:
            self.write(1 << 30)

    def mutate(self, session: str, size: int, count: int = 1) -> None:
        numbers = range(self.number + 1, self.number + count + 1)
        self.number += count
        self.published.setdefault(session, []).extend(numbers)
        frames = [packed("mutation", session, number, size) for number in numbers]
        joined = b"".join(frames)
        if self.outbox.quiet and self.direct:
            written = min(self.direct, len(joined))
            self.wire += joined[:written]
            if written < len(joined):
                self.outbox.begin(joined, written)
        else:
            self.outbox.add_mutations(session, frames, joined)

    def snapshot(self, session: str, parts: int, size: int) -> None:
        """A snapshot; all of its frames carry the number of the newest Mutation that it contains."""
        self.number += 1
        self.snapshots.setdefault(session, []).append((self.number, parts))
        frame = packed("snapshot", session, self.number, size)
        self.outbox.begin_snapshot(session, [frame] * parts)


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 300)),
    st.tuples(st.just("drain"), st.just(0)),
    st.tuples(st.just("control"), st.integers(0, 80)),
    st.tuples(st.just("tick"), st.just(0)),
    st.tuples(st.just("mutation"), st.sampled_from("abc"), st.sampled_from([0, 10, 150, 450])),
    st.tuples(st.just("mutations"), st.sampled_from("abc"), st.sampled_from([0, 10, 60]), st.integers(2, 4)),
    st.tuples(st.just("snapshot"), st.sampled_from("abc"), st.integers(1, 4), st.sampled_from([20, 500])),
    st.tuples(st.just("interrupt"), st.sampled_from("abc")),
    st.tuples(st.just("leave"), st.sampled_from("abc")),
)


RESUBSCRIBED_BEFORE_TOLD: list[Step] = [
    ("snapshot", "b", 2, 500),
    ("snapshot", "a", 2, 20),
    ("write", 10),
    *[("mutation", "a", 150)] * 3,
    ("snapshot", "a", 1, 20),
    ("mutation", "a", 10),
]
"""The loss waits for the end of a snapshot that a new one replaces."""

RESUBSCRIBED_BEFORE_READ: list[Step] = [
    ("snapshot", "b", 2, 500),
    ("write", 10),
    *[("mutation", "a", 150)] * 3,
    ("snapshot", "a", 1, 20),
    ("mutation", "a", 10),
]
"""The loss was told, but the client subscribes again before it can have read that."""


def play(run: Run, step: Step) -> None:
    match step:
        case ("write", int(limit)):
            run.write(limit)
        case ("drain", _):
            run.drain()
        case ("control", int(size)):
            run.number += 1
            run.outbox.add_control(packed("control", "-", run.number, size))
        case ("tick", _):
            run.outbox.add_tick(packed("tick", "-", 0, 0))
        case ("mutation", str(session), int(size)) if session not in run.left:
            run.mutate(session, size)
        case ("mutations", str(session), int(size), int(count)) if session not in run.left:
            run.mutate(session, size, count)
        case ("snapshot", str(session), int(parts), int(size)) if run.outbox.takes_snapshots:
            run.left.discard(session)
            run.snapshot(session, parts, size)
        case ("interrupt", str(session)) if session not in run.left:
            run.outbox.interrupt(session, notice(session))
        case ("leave", str(session)):
            run.left.add(session)
            run.outbox.end_session(session)
            run.outbox.add_control(packed("left", session, 0, 0))


@settings(max_examples=500)
@given(st.lists(STEPS, max_size=60), st.sampled_from([0, 50, 1000]))
@example(RESUBSCRIBED_BEFORE_TOLD, 0)
@example(RESUBSCRIBED_BEFORE_READ, 0)
def test_W6_what_arrives_is_whole_in_order_and_honest_about_losses(steps: list[Step], direct: int) -> None:
    run = Run(direct)
    play(run, ("control", 0))  # the answer to the opening handshake
    run.drain()
    largest_part = 600
    for step in steps:
        play(run, step)
        # The Mutations' bound or one larger Mutation, a head, a part, and a notice for each Session; snapshots.
        bound = LIMITS.outbox_bytes + 100 + 2 * largest_part + 3 * len(notice("a"))
        bound += LIMITS.snapshot_bytes + 4 * largest_part
        assert run.outbox.pending_bytes <= run.outbox.control_bytes + bound
        if run.outbox.quiet:
            assert run.outbox.idle, "what is written past it would overtake what waits"
            assert not any(map(run.outbox.is_lagged, "abc")), "or follow what was lost"
    run.drain()
    assert run.outbox.idle
    assert run.outbox.pending_bytes == 0
    assert run.outbox.quiet == (not any(map(run.outbox.is_lagged, "abc"))), "whoever keeps up is written to at once"
    frames = unpacked(run.wire)
    controls = [number for kind, _, number in frames if kind == "control"]
    assert controls == sorted(controls), "control frames keep their order"
    for session in "abc":
        reader = Reader(run.published.get(session, []), dict(run.snapshots.get(session, [])))
        for kind, name, number in frames:
            if name == session:
                reader.receive(kind, number)
        if session in run.left:
            continue
        if run.outbox.is_lagged(session):
            assert not reader.synced, "Mutations were lost and the client was not told"
        else:
            assert reader.synced, "nothing was lost, and the client waits"
            assert not reader.missing(1 << 60), "nothing was lost, and something did not arrive"


@dataclass
class Reader:
    """A client's view of one Session: how far it has come, or that it waits for a snapshot."""

    published: list[int]
    parts: dict[int, int]
    synced: bool = True
    position: int = 0
    buffer: list[int] = field(default_factory=list)
    collected: list[int] = field(default_factory=list)

    def missing(self, until: int) -> list[int]:
        return [number for number in self.published if self.position < number < until]

    def receive(self, kind: str, number: int) -> None:
        if kind in ("reload", "left"):
            self.synced, self.buffer, self.collected = False, [], []
        elif kind == "mutation" and self.synced:
            self.apply(number)
        elif kind == "mutation":
            self.buffer.append(number)
        else:
            self.collected = [*self.collected, number] if number in self.collected else [number]
            if len(self.collected) == self.parts[number]:
                self.show(number)

    def show(self, number: int) -> None:
        self.collected = []
        if not (self.synced and self.position > number):
            self.synced, self.position = True, number
            for buffered in self.buffer:
                if buffered > number:
                    self.apply(buffered)
            self.buffer = []

    def apply(self, number: int) -> None:
        assert number > self.position, "a Mutation came twice or out of order"
        assert not self.missing(number), "a Mutation after a lost one, and no word about it"
        self.position = number


def overflowing() -> Run:
    run = Run()
    for _ in range(12):
        run.mutate("a", 20)
        run.mutate("b", 20)
    return run


def test_W6_an_overflow_drops_all_mutations_and_tells_each_session_once() -> None:
    run = overflowing()
    assert run.outbox.is_lagged("a")
    assert run.outbox.is_lagged("b")
    run.mutate("a", 20)
    run.drain()
    assert unpacked(run.wire) == [("reload", "a", 0), ("reload", "b", 0)]


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from("abc"), st.sampled_from([0, 10, 40, 150, 450])),
            st.tuples(st.just("write"), st.just(0)),
        ),
        max_size=80,
    )
)
def test_W6_an_overflow_costs_those_who_have_most_waiting(steps: list[tuple[str, int]]) -> None:
    run = Run()
    waiting: dict[str, list[int]] = {session: [] for session in "abc"}
    for session, size in steps:
        if session == "write":
            head = bytes(run.outbox.head() or b"")
            run.outbox.wrote(len(head))
            for kind, name, _ in unpacked(head):
                if kind == "mutation":
                    waiting[name].pop(0)
            continue
        lagged = {name for name in "abc" if run.outbox.is_lagged(name)}
        run.mutate(session, size)
        new = {name for name in "abc" if run.outbox.is_lagged(name)} - lagged
        if session not in lagged:
            waiting[session].append(len(packed("mutation", session, run.number, size)))
        weights = {name: sum(sizes) for name, sizes in waiting.items()}
        assert bool(new) == (sum(weights.values()) > LIMITS.outbox_bytes and sum(map(len, waiting.values())) > 1)
        if new:
            spared = sum(weights[name] for name in set("abc") - new)
            assert spared + min(weights[name] for name in new) > LIMITS.outbox_bytes, "no more than had to be"
        for name in new:
            assert all(weights[name] >= weights[other] for other in set("abc") - new)
            waiting[name].clear()
        assert sum(map(sum, waiting.values())) <= max(LIMITS.outbox_bytes, 500)


def test_W6_a_flood_in_one_session_costs_another_nothing() -> None:
    run = Run()
    for number in range(300):
        run.mutate("a", 90)
        if number % 3 == 0:
            run.mutate("b", 5)
        if number % 100 == 0:
            run.snapshot("a", 1, 10)
        run.write(100)
    assert not run.outbox.is_lagged("b")
    assert run.outbox.is_lagged("a")
    run.drain()
    heard = [number for kind, session, number in unpacked(run.wire) if (kind, session) == ("mutation", "b")]
    assert heard == run.published["b"]


def test_R4_a_flood_in_one_session_does_not_keep_back_the_snapshot_of_another() -> None:
    run = Run()
    for _ in range(4):
        run.mutate("a", 60)
    run.snapshot("b", 3, 60)
    seen = 0
    while b"snapshot:b" not in run.wire or run.wire.count(b"snapshot:b") < 3:
        run.mutate("a", 60)
        run.write(100)
        seen += 1
        assert seen < 15, "its parts wait for the flood to end"


def test_R4_snapshots_of_several_sessions_take_turns() -> None:
    run = Run()
    for session in "abc":
        run.snapshot(session, 3, 80)
    run.drain()
    assert [session for _, session, _ in unpacked(run.wire)] == ["a", "b", "c"] * 3


def test_W6_after_its_snapshot_a_lagged_session_goes_on() -> None:
    run = overflowing()
    run.drain()
    run.wire = b""
    run.snapshot("a", 2, 10)
    run.mutate("a", 5)
    run.mutate("b", 5)
    run.drain()
    frames = [(kind, session) for kind, session, _ in unpacked(run.wire)]
    assert sorted(frames) == [("mutation", "a"), ("snapshot", "a"), ("snapshot", "a")]
    assert run.outbox.is_lagged("b"), "the other Session still waits for its client"


def test_R3_a_snapshot_under_way_is_finished_before_its_session_is_told_of_a_loss() -> None:
    run = Run()
    run.snapshot("a", 4, 500)
    run.write(100)
    for _ in range(30):
        run.mutate("a", 20)
    run.drain()
    frames = unpacked(run.wire)
    assert [kind for kind, _, _ in frames if kind != "mutation"] == ["snapshot"] * 4 + ["reload"]
    assert frames[-1][0] == "reload"


def test_R4_control_frames_overtake_data_but_not_the_frame_that_is_being_written() -> None:
    run = Run()
    run.snapshot("a", 2, 500)
    run.write(10)
    run.mutate("a", 150)
    run.outbox.add_tick(packed("tick", "-", 0, 0))
    run.outbox.add_tick(packed("tick", "-", 0, 0))
    run.drain()
    kinds = [kind for kind, _, _ in unpacked(run.wire)]
    assert kinds[:2] == ["snapshot", "tick"]
    assert kinds.count("tick") == 1, "a second tick says nothing new"


def test_W6_a_mutation_larger_than_the_bound_is_sent_when_nothing_waits() -> None:
    run = Run()
    run.mutate("a", 1000)
    run.mutate("a", 1)
    assert run.outbox.is_lagged("a")
    run = Run()
    run.mutate("a", 1000)
    run.drain()
    run.mutate("a", 1)
    run.drain()
    assert [kind for kind, _, _ in unpacked(run.wire)] == ["mutation", "mutation"]


def test_W8_last_words_come_after_the_frame_being_written_and_nothing_comes_after_them() -> None:
    run = Run()
    run.mutate("a", 150)
    run.write(10)
    run.mutate("a", 50)
    run.snapshot("b", 3, 20)
    run.outbox.close(packed("close", "-", 0, 0))
    run.mutate("a", 5)
    run.outbox.add_control(packed("control", "-", 1, 0))
    run.drain()
    assert [kind for kind, _, _ in unpacked(run.wire)] == ["mutation", "close"]


@pytest.mark.parametrize("how", ["close", "encode"])
def test_W6_nothing_is_written_past_an_outbox_that_takes_nothing_or_changes_what_is_written(how: str) -> None:
    run = Run()
    run.mutate("a", 5)
    run.drain()
    assert run.outbox.quiet
    if how == "close":
        run.outbox.close()
    else:
        run.outbox.encode_with(bytes.upper)
        assert not run.outbox.quiet
        run.mutate("a", 5)
        run.drain()
    assert not run.outbox.quiet


def test_R4_snapshot_parts_enter_one_at_a_time_when_the_lane_has_drained() -> None:
    run = Run()
    run.mutate("a", 80)
    run.mutate("a", 80)
    run.snapshot("a", 3, 10)
    run.write(1)
    run.mutate("a", 5)
    run.drain()
    kinds = [kind for kind, _, _ in unpacked(run.wire)]
    assert kinds == ["mutation"] * 3 + ["snapshot"] * 3, "the lane drains first, also of what comes meanwhile"
    run = Run()
    run.snapshot("a", 3, 80)
    run.write(1)
    run.write(10)
    run.mutate("a", 5)
    run.drain()
    kinds = [kind for kind, _, _ in unpacked(run.wire)]
    assert kinds == ["snapshot", "mutation", "snapshot", "snapshot"], "the second waits until the first is gone"


def test_R4_of_all_snapshots_one_part_waits_in_a_lane_and_mutations_go_before_the_others() -> None:
    run = Run()
    run.snapshot("a", 2, 10)
    run.snapshot("b", 2, 10)
    for number in range(3):
        run.outbox.add_control(packed("control", "-", number, 90))
    for _ in range(3):  # each lets a part into its lane, if one may come in, and writes nothing of it
        run.write(1 << 30)
    run.mutate("b", 5)
    run.drain()
    frames = unpacked(run.wire)
    assert [kind for kind, _, _ in frames[:3]] == ["control"] * 3
    assert [kind for kind, session, _ in frames if session == "b"] == ["mutation", "snapshot", "snapshot"]


def test_W6_who_is_lagged_again_before_it_was_told_is_told_once() -> None:
    run = Run()
    run.write(1)
    for size in (250, 250):
        run.mutate("a", size)
    assert run.outbox.is_lagged("a")
    run.snapshot("a", 2, 10)
    for size in (250, 250):
        run.mutate("a", size)
    assert run.outbox.is_lagged("a")
    run.drain()
    assert [kind for kind, _, _ in unpacked(run.wire)] == ["snapshot", "snapshot", "reload"]


@pytest.mark.parametrize("lane", ["control", "data"])
def test_W6_frames_are_joined_up_to_a_bound_and_a_larger_one_goes_alone(lane: str) -> None:
    run = Run()
    sizes = [10, 10, 10, 150, 10]
    for number, size in enumerate(sizes):
        if lane == "control":
            run.outbox.add_control(packed("control", "-", number, size))
        else:
            run.mutate("a", size)
    joined = []
    while (head := run.outbox.head()) is not None:
        frames = unpacked(bytes(head))
        assert len(head) <= LIMITS.join_bytes or len(frames) == 1
        joined.append(len(frames))
        run.write(1 << 30)
    assert sum(joined) == len(sizes)
    assert max(joined) > 1


@settings(max_examples=300)
@given(st.lists(STEPS, max_size=60))
def test_W6_all_that_waits_of_snapshots_is_counted_and_forgotten_with_it(steps: list[Step]) -> None:
    run = Run()
    for step in steps:
        play(run, step)
    for session in "abc":
        run.outbox.end_session(session)
        run.snapshot(session, 1, 10)
    waiting = sum(len(packed("snapshot", "a", number, 10)) for number in range(run.number - 2, run.number + 1))
    with_snapshots = run.outbox.pending_bytes
    for session in "abc":
        run.outbox.end_session(session)
    assert with_snapshots - run.outbox.pending_bytes == waiting
    assert run.outbox.takes_snapshots
    run.drain()
    assert run.outbox.pending_bytes == 0


def test_W6_no_snapshot_is_taken_while_too_much_of_others_waits() -> None:
    run = Run()
    for session in "abc":
        assert run.outbox.takes_snapshots
        run.snapshot(session, 1, 500)
    assert not run.outbox.takes_snapshots
    run.write(1 << 30)
    run.write(1 << 30)
    assert run.outbox.takes_snapshots
    run.drain()
    assert [session for _, session, _ in unpacked(run.wire)] == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["end", "close", "replace"])
def test_W6_room_for_snapshots_comes_back_however_they_end(how: str) -> None:
    run = Run()
    run.snapshot("a", 4, 500)
    assert not run.outbox.takes_snapshots
    match how:
        case "end":
            run.outbox.end_session("a")
        case "close":
            run.outbox.close()
        case _:
            run.snapshot("a", 1, 500)
    assert run.outbox.takes_snapshots


def test_R4_two_small_parts_are_never_in_the_lane_together() -> None:
    run = Run()
    run.snapshot("a", 4, 10)
    run.drain()
    run.snapshot("b", 4, 10)
    while run.outbox.head() is not None:
        assert len(unpacked(bytes(run.outbox.head() or b""))) == 1
        run.write(1 << 30)


def test_W8_no_data_overtakes_control_frames_that_did_not_fit_into_one_write() -> None:
    run = Run()
    run.outbox.add_control(packed("control", "-", 1, 60))
    run.outbox.add_control(packed("control", "-", 2, 60))
    run.mutate("a", 1)
    run.drain()
    assert [kind for kind, _, _ in unpacked(run.wire)] == ["control", "control", "mutation"]


@pytest.mark.parametrize(("encode", "wire"), [(None, b"ab"), (lambda frame: b"<%b>" % frame, b"<a><b>")])
def test_W6_mutations_that_wait_stay_joined_unless_each_is_encoded_by_itself(
    encode: Callable[[bytes], bytes] | None, wire: bytes
) -> None:
    outbox = Outbox(LIMITS, notice)
    if encode is not None:
        outbox.encode_with(encode)
    outbox.add_mutations("s", [b"a", b"b"], b"ab")
    head = outbox.head()
    assert head is not None
    assert (bytes(head), outbox.frames_out) == (wire, 2)
