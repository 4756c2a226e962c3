"""Changes of files, and what a Turn says of them, in the short forms that tests are made of."""

from turnwire.tools.base import FileDiffSummary
from turnwire.tools.file_changes import FileChanges

Step = tuple[str, str | None, str | None]


def changed(*steps: Step) -> FileChanges:
    changes = FileChanges()
    for step in steps:
        changes.changed(*step)
    return changes


def summary(*steps: Step) -> FileDiffSummary:
    found = changed(*steps).summary()
    assert found is not None
    return found


def counts(found: FileDiffSummary) -> list[tuple[str, str, int, int]]:
    return [(file.path, file.status, file.additions, file.deletions) for file in found.files]
