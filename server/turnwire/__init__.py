"""Turnwire: a real-time session server for AI-agent chat.

`Turnwire` is a server with tools and a model of your own; `tool` makes a tool of a function.
"""

from turnwire.app import Turnwire
from turnwire.tools.functions import tool

__all__ = ["Turnwire", "tool"]
