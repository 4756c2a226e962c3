"""Fixtures of the Session tests."""

from sessions_world import memory_store, world

__all__ = ["memory_store", "world"]
