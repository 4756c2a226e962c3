"""The end of every run: the Session is deleted while a Turn runs in it, and one of the same name begins anew.

Everyone who follows it is told, nothing of it is left, and nothing that still goes on in it does any harm (T3).
"""

import trio

from simulation.journal import Journal
from simulation.tabs import SESSION, Tab
from simulation.world import World
from turnwire.store.base import NotFound, Store
from turnwire_protocol.codes import RequestError
from turnwire_protocol.parts import TextInput

AFTERWARDS_SECONDS = 10.0
"""By then whatever was still under way has come to its end."""


async def delete(world: World, store: Store, tab: Tab, *, after: float) -> None:
    """Deletes the Session that the live `tab` follows, `after` so many seconds of a new Turn."""
    require = world.journal.require
    receipt = await world.registry.prompt(SESSION, parts=(TextInput("the very last"),), client_request_id="doomed")
    await trio.sleep(after)
    tab.doomed = True
    await world.registry.delete(SESSION)
    require(tab.ended_with == "deleted", "L1", f"{tab.name} was told {tab.ended_with} when the Session was deleted")
    require(world.tools.running == 0, "T3", f"{world.tools.running} tools run in a Session that was deleted")
    await trio.sleep(AFTERWARDS_SECONDS)
    try:
        left = await store.session(SESSION)
        require(False, "W4", f"the Session was deleted, stored is {left}")
    except NotFound:
        turn = await store.turn(receipt.turn_id)
        require(turn is None, "W4", f"the Session was deleted, stored is {turn}")
    await _begin_anew(world, world.journal)


async def _begin_anew(world: World, journal: Journal) -> None:
    try:
        await world.registry.get(SESSION)
        journal.require(False, "W4", "the Session is shown after it was deleted")
    except RequestError as error:
        journal.require(error.code == "not_found", "W4", f"the Session was deleted: {error.code}")
    made = await world.registry.create(session_id=SESSION)
    page = await world.registry.messages(SESSION)
    journal.require((made.message_count, page.total, made.executing) == (0, 0, False), "M5", f"it begins with {made}")
