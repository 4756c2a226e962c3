"""Token buckets and counts against plain models (W9)."""

import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwire.gateway.admission import Admission
from turnwire.gateway.rates import PRUNE_ABOVE, Addresses, Bucket, Buckets, Places, Rate

PAUSES = st.lists(st.floats(0, 5), max_size=60)


@given(PAUSES, st.sampled_from([0.5, 2.0, 100.0]), st.sampled_from([1.0, 5.0, 50.0]))
def test_W9_no_more_is_taken_than_the_rate_allows_and_who_waits_as_told_is_served(
    pauses: list[float], per_s: float, burst: float
) -> None:
    now, taken, start = 1000.0, [], 1000.0
    bucket = Bucket(Rate(per_s, burst), now)
    for pause in pauses:
        now += pause
        wait = bucket.take(now)
        if wait:
            now += wait * (1 + 1e-9) + 1e-9
            assert bucket.take(now) == 0.0
        taken.append(now)
        for first in range(len(taken)):
            assert len(taken) - first <= burst + (now - (taken[first] if first else start)) * per_s + 1e-3


def test_W9_a_bucket_never_holds_more_than_its_burst_nor_minds_a_clock_that_stands() -> None:
    bucket = Bucket(Rate(10, 3), 0.0)
    assert [bucket.take(1e9) for _ in range(4)] == [0, 0, 0, pytest.approx(0.1)]
    assert bucket.take(1e9 - 5) == pytest.approx(0.1)


def test_W9_what_is_taken_beyond_the_last_one_has_to_be_filled_up_first() -> None:
    bucket = Bucket(Rate(10, 3), 0.0)
    assert bucket.take(0.0, 8) == 0
    assert bucket.take(0.0) == pytest.approx(0.6)
    assert bucket.take(0.59) > 0
    assert bucket.take(0.61, 100) == 0
    assert bucket.take(0.61) == pytest.approx(9.9 + 0.09, abs=0.1)


def test_W9_coming_anew_gains_nothing_and_buckets_do_not_pile_up() -> None:
    buckets = Buckets(Rate(1, 2))
    assert [buckets.take("a", 0) for _ in range(3)] == [0, 0, 1]
    for number in range(PRUNE_ABOVE * 3):
        assert buckets.take(number, 0.001) == 0
    assert buckets.take("a", 0.5) > 0, "it is not full, so it is not forgotten"
    for number in range(PRUNE_ABOVE * 10):
        buckets.take(("later", number), 100 + number)
    assert len(buckets) <= 6 * PRUNE_ABOVE


@given(st.lists(st.tuples(st.sampled_from("abc-"), st.booleans()), max_size=60))
def test_W9_places_are_counted_in_all_and_by_key(steps: list[tuple[str, bool]]) -> None:
    places = Places(5, 2)
    held: list[str | None] = []
    for name, come in steps:
        key = None if name == "-" else name
        if come:
            full = "in all" if len(held) >= 5 else None
            full = full or ("from one place" if key is not None and held.count(key) >= 2 else None)
            assert places.refusal(key) == full
            if full is None:
                places.enter(key)
                held.append(key)
        elif key in held:
            places.leave(key)
            held.remove(key)
        assert places.taken == len(held)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_W9_addresses_count_by_who_has_them(one: str, other: str, same: bool) -> None:
    addresses = Addresses(["127.0.0.0/8", "::1/128"])
    assert addresses.key_of(one) is not None
    assert (addresses.key_of(one) == addresses.key_of(other)) == same


@pytest.mark.parametrize("host", [None, "", "/run/turnwire.sock", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_W9_this_machine_and_what_is_no_address_is_not_counted_by_address(host: str | None) -> None:
    assert Addresses(["127.0.0.0/8", "::1/128"]).key_of(host) is None


def test_W9_a_ticket_is_a_handshake_then_a_websocket_then_nothing() -> None:
    admission = Admission(handshakes=2, handshakes_per_address=2, connections=2, per_address=1, uncounted=())
    first, second = admission.arrive("192.0.2.1"), admission.arrive("192.0.2.1")
    assert first is not None
    assert second is not None
    assert admission.arrive("192.0.2.9") is None
    assert first.upgrade() is None
    assert (admission.handshakes, admission.sockets) == (1, 1)
    assert second.upgrade() == "from one place"
    second.end()
    third, fourth = admission.arrive("192.0.2.2"), admission.arrive("192.0.2.3")
    assert third is not None
    assert fourth is not None
    assert third.upgrade() is None
    assert fourth.upgrade() == "in all"
    for ticket in (first, first, third, fourth, fourth):
        ticket.end()
    assert (admission.handshakes, admission.sockets) == (0, 0)
    assert first.upgrade() is None
    assert admission.sockets == 0, "what has ended does not come back"


def test_W9_one_address_that_asks_for_nothing_leaves_places_to_others() -> None:
    admission = Admission(
        handshakes=4, handshakes_per_address=2, connections=9, per_address=9, uncounted=["127.0.0.0/8"]
    )
    held = [admission.arrive("192.0.2.1"), admission.arrive("192.0.2.1")]
    assert admission.arrive("192.0.2.1") is None
    assert admission.arrive("192.0.2.2") is not None
    assert held[0] is not None
    assert held[1] is not None
    assert held[0].upgrade() is None, "a WebSocket gives the place back"
    held[1].end()
    assert [admission.arrive("192.0.2.1") is None for _ in range(3)] == [False, False, True]
    held[0].end()
    assert admission.arrive("127.0.0.1") is not None, "this machine is not counted"


def test_W9_places_that_are_free_again_do_not_pile_up() -> None:
    places = Places(10, 1)
    for key in range(1000):
        places.enter(key)
        places.leave(key)
    assert len(gc.get_referents(*gc.get_referents(places))) < 50, "of one for each address that ever came"
