"""All Autobahn cases, for `make autobahn`: also large messages, many messages, and those of compression, once with it
and once without.
"""

from pathlib import Path

from autobahn_world import failed_cases


async def test_W2_W9_the_websocket_layer_passes_all_cases(tmp_path: Path) -> None:
    count, failed = await failed_cases(["*"], [], tmp_path)
    assert failed == {}
    assert count > 500


async def test_W2_W9_with_compression_the_websocket_layer_passes_all_cases_about_it(tmp_path: Path) -> None:
    count, failed = await failed_cases(["12.*", "13.*"], [], tmp_path, compression=True)
    assert failed == {}
    assert count > 200
