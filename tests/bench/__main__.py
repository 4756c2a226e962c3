"""Every benchmark in one run: `python -m bench` (or `make bench`).

Prints the tables and leaves them in `results/`, as JSON and as a picture. ROUNDS is how often each comparison is made.
"""

import json
import os
import tempfile
from pathlib import Path

import trio

from bench import bars, picture, rows, store
from bench.fanout import run

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    rounds = int(os.environ.get("ROUNDS", "3"))
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir=".") as disk:
        load, floor = (run.build(Path(name), program) for program in ("load", "floor"))
        fanout = run.compare(rounds, load, floor)
        found = [
            *run.rows(fanout),
            *bars.over_sockets(rounds, load),
            *trio.run(bars.in_process, Path(name), rounds),
            trio.run(store.grouping, Path(disk), rounds),
        ]
    print(run.tables(fanout), rows.table(found), sep="\n\n")
    (RESULTS / "fanout.json").write_text(json.dumps(run.summary(fanout), indent=2) + "\n")
    (RESULTS / "fanout.svg").write_text(picture.picture(run.medians(fanout)))
    rows.save(found, RESULTS / "bars.json")


if __name__ == "__main__":
    main()
