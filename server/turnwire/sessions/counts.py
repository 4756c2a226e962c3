"""What Sessions count while they work, as plain numbers for whoever wants to know."""

from turnwire.measures import Histogram, count


class SessionCounts:
    """Sums over all Sessions of one server since its start."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}
        """Turns that have finished, by status."""
        self.warnings: dict[str, int] = {}
        """Failed model requests, by code (T5)."""
        self.first_event_seconds = Histogram()
        """How long the model calls of Turns took to begin; those that failed before are not counted."""

    def turn_finished(self, status: str) -> None:
        count(self.turns, status)

    def warned(self, code: str) -> None:
        count(self.warnings, code)
