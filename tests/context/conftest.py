"""A store of either kind for the Composer's tests."""

from collections.abc import AsyncGenerator

import pytest

from store.builders import KINDS, open_store
from turnwire.store.base import Store


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest) -> AsyncGenerator[Store]:
    async with open_store(request.param) as opened:
        yield opened
