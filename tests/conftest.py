"""Shared fixtures of all tests."""
