"""Whether and when a failed model call is tried again (T5).

A pure policy: the loop waits, counts and tells the user.
"""

from dataclasses import dataclass
from random import Random

from turnwire.models.base import ModelError


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Exponential back-off with full jitter. Raises ValueError when made with numbers that make no sense."""

    max_attempts: int = 4
    """Attempts of one Step in all, the first one included."""

    base_ms: int = 500
    """The longest wait before the second attempt, in ms; it doubles with every further one."""

    max_ms: int = 20_000
    """The longest wait of all, in ms; a provider that asks for more is asked again this early."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts: expected at least 1, got {self.max_attempts}")
        if not 0 <= self.base_ms <= self.max_ms:
            raise ValueError(f"base_ms: expected 0 to max_ms ({self.max_ms}), got {self.base_ms}")

    def delay_ms(self, attempt: int, error: ModelError, random: Random) -> int | None:
        """How long to wait after the failure of `attempt` (from 1), in ms, or None for no further attempt.

        A provider's own `retry_after_ms` is waited out, up to `max_ms`; up to `base_ms` more spreads those who were
        all told the same.
        """
        if not error.retryable or attempt >= self.max_attempts:
            return None
        if error.retry_after_ms is not None:
            return min(max(error.retry_after_ms, 0), self.max_ms) + random.randint(0, self.base_ms)
        return random.randint(0, self._ceiling_ms(attempt))

    def _ceiling_ms(self, attempt: int) -> int:
        doublings = min(attempt - 1, self.max_ms.bit_length())
        return min(self.max_ms, self.base_ms << doublings)
