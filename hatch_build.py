"""Build hook: a package without the chat page is refused here, instead of being missed by those who install it."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGE = "server/turnwire/page/index.html"


class PageHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Raises FileNotFoundError. An editable install comes first on a new machine, and finds the page later."""
        if version != "editable" and not (Path(self.root) / PAGE).is_file():
            raise FileNotFoundError(f"{PAGE} is missing, and with it the chat page: `make install` builds it")
