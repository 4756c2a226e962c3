"""Turnwire: a real-time session server for AI-agent chat."""
