"""Rates and counts: token buckets and how many connections there are, without I/O or a clock of their own.

Times are in seconds on any clock that does not run backwards.
"""

import ipaddress
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Final

from msgspec import Struct

IPV6_CLIENT_BITS: Final = 64
"""One client of IPv6 has a whole network of this prefix length, so addresses count by it."""

PRUNE_ABOVE: Final = 1024
"""So many buckets are kept before those that are full again, and so say nothing, are dropped."""


class Rate(Struct, frozen=True):
    """How much may be taken: `per_s` in the long run, `burst` at once."""

    per_s: float
    burst: float


class Bucket:
    """A token bucket: full at first, filled at its rate, never beyond its burst."""

    __slots__ = ("_filled_at", "_level", "_rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._level = rate.burst
        self._filled_at = now

    def take(self, now: float, count: int = 1) -> float:
        """Takes so many if there is one, and gives 0; else takes nothing and gives the seconds until there is one.

        What was taken beyond the last one has to be filled up first, so `count` may be more than the bucket holds.
        """
        self._fill(now)
        if self._level >= 1:
            self._level -= count
            return 0.0
        return (1 - self._level) / self._rate.per_s

    def full(self, now: float) -> bool:
        self._fill(now)
        return self._level >= self._rate.burst

    def _fill(self, now: float) -> None:
        self._level = min(self._rate.burst, self._level + max(0.0, now - self._filled_at) * self._rate.per_s)
        self._filled_at = max(now, self._filled_at)


class Buckets:
    """A bucket for each key. One that is dropped when it is full comes back full: coming anew gains nothing."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: dict[Hashable, Bucket] = {}
        self._prune_above = PRUNE_ABOVE

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now: float, count: int = 1) -> float:
        """As `Bucket.take`."""
        bucket = self._buckets.get(key)
        if bucket is None:
            self._prune(now)
            bucket = self._buckets[key] = Bucket(self._rate, now)
        return bucket.take(now, count)

    def _prune(self, now: float) -> None:
        if len(self._buckets) >= self._prune_above:
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.full(now)}
            self._prune_above = max(PRUNE_ABOVE, 2 * len(self._buckets))


class Places:
    """How many of something there are, in all and by key."""

    def __init__(self, most: int, most_by_key: int) -> None:
        self._most = most
        self._most_by_key = most_by_key
        self._by_key: Counter[Hashable] = Counter()
        self.taken = 0

    def refusal(self, key: Hashable | None) -> str | None:
        """Why no further one may come, as the end of a sentence, or None. What has no key counts in all only."""
        if self.taken >= self._most:
            return "in all"
        if key is not None and self._by_key[key] >= self._most_by_key:
            return "from one place"
        return None

    def enter(self, key: Hashable | None) -> None:
        self.taken += 1
        if key is not None:
            self._by_key[key] += 1

    def leave(self, key: Hashable | None) -> None:
        """Must follow each `enter` once."""
        self.taken -= 1
        if key is not None:
            self._by_key[key] -= 1
            if not self._by_key[key]:
                del self._by_key[key]


class Addresses:
    """Which connections count as coming from one place. Networks that are `exempt` are not counted by address."""

    def __init__(self, exempt: Iterable[str]) -> None:
        self._exempt = [ipaddress.ip_network(network) for network in exempt]

    def key_of(self, host: str | None) -> Hashable | None:
        """What a peer's address counts under; None for one that is exempt, or no address of the internet at all."""
        if host is None:
            return None
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return None
        if isinstance(address, ipaddress.IPv6Address):
            address = address.ipv4_mapped or address
        if any(address in network for network in self._exempt):
            return None
        if isinstance(address, ipaddress.IPv6Address):
            return ipaddress.ip_network((address, IPV6_CLIENT_BITS), strict=False)
        return address
