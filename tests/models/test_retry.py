"""The retry policy: who gets another attempt, and after how long."""

from random import Random
from typing import get_args

import pytest

from turnwire.models.base import RETRYABLE, ErrorCode, ModelError
from turnwire.models.retry import RetryPolicy

policy = RetryPolicy()


@pytest.mark.parametrize("code", get_args(ErrorCode))
def test_T5_only_retryable_failures_get_another_attempt(code: ErrorCode) -> None:
    delay = policy.delay_ms(1, ModelError(code, "x"), Random(1))
    assert (delay is not None) == (code in RETRYABLE)


def test_T5_the_provider_may_overrule_the_code() -> None:
    assert policy.delay_ms(1, ModelError("rate_limited", "no quota", retryable=False), Random(1)) is None
    assert policy.delay_ms(1, ModelError("auth", "key rotates", retryable=True), Random(1)) is not None


def test_T5_attempts_are_limited() -> None:
    error = ModelError("overloaded", "busy")
    delays = [policy.delay_ms(attempt, error, Random(1)) for attempt in range(1, 7)]
    assert [delay is None for delay in delays] == [False, False, False, True, True, True]
    assert RetryPolicy(max_attempts=1).delay_ms(1, error, Random(1)) is None


@pytest.mark.parametrize(
    ("attempt", "ceiling"), [(1, 500), (2, 1000), (5, 8000), (6, 16_000), (7, 20_000), (10_000, 20_000)]
)
def test_T5_back_off_doubles_up_to_its_limit_and_is_fully_jittered(attempt: int, ceiling: int) -> None:
    random = Random(7)
    patient = RetryPolicy(max_attempts=100_000)
    error = ModelError("overloaded", "busy")
    delays = [patient.delay_ms(attempt, error, random) for _ in range(2000)]
    waited = [delay for delay in delays if delay is not None]
    assert len(waited) == 2000
    assert 0 <= min(waited) < ceiling * 0.02
    assert ceiling * 0.98 < max(waited) <= ceiling
    assert ceiling * 0.45 < sum(waited) / len(waited) < ceiling * 0.55


@pytest.mark.parametrize(("asked", "honoured"), [(0, 0), (3000, 3000), (20_000, 20_000), (10**12, 20_000), (-5, 0)])
def test_T5_the_providers_own_wish_is_waited_out_up_to_the_limit(asked: int, honoured: int) -> None:
    random = Random(3)
    error = ModelError("rate_limited", "slow down", retry_after_ms=asked)
    delays = {policy.delay_ms(attempt, error, random) for attempt in (1, 2, 3) for _ in range(100)}
    assert None not in delays
    assert all(honoured <= delay <= honoured + policy.base_ms for delay in delays if delay is not None)
    assert len(delays) > 50


@pytest.mark.parametrize("numbers", [{"max_attempts": 0}, {"base_ms": -1}, {"base_ms": 30_000}])
def test_T5_a_policy_without_sense_is_refused(numbers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected"):
        RetryPolicy(**numbers)
