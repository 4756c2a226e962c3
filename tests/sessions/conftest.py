"""Fixtures of the Session tests."""

from model_dialects import dialect
from model_service import service
from sessions_world import memory_store, world

__all__ = ["dialect", "memory_store", "service", "world"]
