"""All timelines against one client program."""

from turnwire.conformance.verdict import Verdict
from turnwire_protocol.timelines import ClientTimelines


async def play_clients(command: str, files: list[tuple[str, ClientTimelines]], *, jobs: int) -> list[Verdict]:
    """Every timeline, in the order of the files."""
    raise ValueError(f"{command}: clients cannot be tested yet, {len(files)} files, {jobs} jobs")
