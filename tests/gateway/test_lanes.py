"""The data lanes against a plain model: order within a Session, fairness between Sessions, and right sums."""

import gc
from collections import deque
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from turnwire.gateway.lanes import Kind, Lanes

SESSIONS = "abcd"
SIZES = st.integers(1, 50)


@dataclass
class Model:
    """What should wait, by Session, and how much each was given."""

    lanes: Lanes = field(default_factory=Lanes)
    waiting: dict[str, deque[tuple[Kind, bytes]]] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    number: int = 0

    def add(self, session: str, kind: Kind, size: int) -> None:
        self.number += 1
        frame = f"{session}{self.number}:".encode().ljust(size + 8, b".")
        self.waiting.setdefault(session, deque()).append((kind, frame))
        self.lanes.add(kind, session, frame, self.number)

    def take(self) -> str:
        frame, count = self.lanes.take()
        session, number = chr(frame[0]), int(frame[1 : frame.index(b":")])
        assert count == number, "of another one"
        assert self.waiting[session].popleft()[1] == frame, "not the oldest of its Session"
        self.given[session] = self.given.get(session, 0) + len(frame)
        return session

    def keep(self, session: str, wanted: Kind) -> None:
        self.waiting[session] = deque(entry for entry in self.waiting.get(session, ()) if entry[0] is wanted)
        self.lanes.keep(session, lambda kind: kind is wanted)

    def check(self) -> None:
        frames = [entry for lane in self.waiting.values() for entry in lane]
        assert bool(self.lanes) == bool(frames) == (self.lanes.peek() is not None)
        assert self.lanes.size == sum(len(frame) for _, frame in frames)
        assert self.lanes.mutation_bytes == sum(len(frame) for kind, frame in frames if kind is Kind.MUTATION)
        assert self.lanes.snapshot_parts == sum(kind is Kind.SNAPSHOT for kind, _ in frames)
        for session in SESSIONS:
            assert self.lanes.size_of(session) == sum(len(frame) for _, frame in self.waiting.get(session, ()))


STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(SESSIONS), st.sampled_from(list(Kind)), SIZES),
    st.tuples(st.just("take")),
    st.tuples(st.just("keep"), st.sampled_from(SESSIONS), st.sampled_from(list(Kind))),
)


@settings(max_examples=200)
@given(st.lists(STEPS, max_size=80))
def test_W6_frames_of_a_session_keep_their_order_and_the_sums_are_right(steps: list[tuple[object, ...]]) -> None:
    model = Model()
    for step in steps:
        match step:
            case ("add", str(session), Kind() as kind, int(size)):
                model.add(session, kind, size)
            case ("take",) if model.lanes:
                size_before = model.lanes.peek()
                before = model.lanes.size
                model.take()
                assert before - model.lanes.size == size_before
            case ("keep", str(session), Kind() as kind):
                model.keep(session, kind)
        model.check()
    while model.lanes:
        model.take()
    model.check()


@settings(max_examples=200)
@given(
    early=st.dictionaries(st.sampled_from(SESSIONS[:3]), st.lists(SIZES, min_size=20, max_size=40), min_size=1),
    late=st.lists(SIZES, min_size=10, max_size=40),
    after=st.integers(0, 15),
)
def test_W6_sessions_that_wait_are_given_equally_many_bytes_also_one_that_comes_late(
    early: dict[str, list[int]], late: list[int], after: int
) -> None:
    model = Model()
    for session, sizes in early.items():
        for size in sizes:
            model.add(session, Kind.MUTATION, size)
    for _ in range(after):
        model.take()
    model.given = {}
    for size in late:
        model.add("d", Kind.MUTATION, size)
    largest = 58
    while all(model.waiting[session] for session in [*early, "d"]):
        model.take()
        shares = [model.given.get(session, 0) for session in [*early, "d"]]
        assert max(shares) - min(shares) <= 3 * largest, "one is far ahead of another"


def test_W6_who_says_little_does_not_wait_behind_a_flood() -> None:
    model = Model()
    for _ in range(1000):
        model.add("a", Kind.MUTATION, 50)
    for _ in range(100):
        model.take()
    model.add("b", Kind.MUTATION, 1)
    assert [model.take(), model.take()].count("b") == 1


def test_W6_who_was_silent_has_saved_nothing_up() -> None:
    model = Model()
    model.add("b", Kind.MUTATION, 50)
    for _ in range(100):
        model.add("a", Kind.MUTATION, 50)
    for _ in range(60):
        model.take()
    for _ in range(50):
        model.add("b", Kind.MUTATION, 50)
    assert 8 <= [model.take() for _ in range(20)].count("b") <= 12


def test_W6_lanes_of_sessions_that_are_over_do_not_pile_up() -> None:
    lanes = Lanes()
    for number in range(1000):
        lanes.add(Kind.MUTATION, f"session-{number}", b"x")
        lanes.take()
    held = gc.get_referents(*gc.get_referents(lanes))
    assert len(held) < 10, "of one that lasts long, for each Session that it ever had"
