"""Stores: the contract and its implementations."""
