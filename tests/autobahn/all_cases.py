"""All Autobahn cases, for `make autobahn`: also large messages, many messages, and compression, which is off."""

from pathlib import Path

from autobahn_world import failed_cases


async def test_W2_W9_the_websocket_layer_passes_all_cases(tmp_path: Path) -> None:
    count, failed = await failed_cases(["*"], [], tmp_path)
    assert failed == {}
    assert count > 500
