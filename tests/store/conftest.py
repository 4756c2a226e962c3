"""Every test that takes `store` runs against each kind of store: one contract, two implementations."""

from collections.abc import AsyncGenerator

import pytest

from store.builders import KINDS, Kind, open_store
from turnwire.store.memory import MemoryStore
from turnwire.store.sqlite import SqliteStore


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
async def store(kind: Kind) -> AsyncGenerator[MemoryStore | SqliteStore]:
    async with open_store(kind) as opened:
        yield opened
