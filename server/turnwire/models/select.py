"""Which provider a name on the command line stands for."""

from turnwire.models.base import ModelProvider
from turnwire.models.scripted import ScriptedProvider

KNOWN = "`scripted` or `openai:NAME`"


def provider_for(name: str, *, base_url: str | None = None) -> ModelProvider:
    """The provider: `scripted`, or `openai:NAME` for model NAME of OpenAI or of the compatible service at `base_url`.

    Raises ValueError with a sentence for the user: an unknown name, a missing API key, a URL that is none.
    """
    kind, _, model = name.partition(":")
    if name == "scripted":
        if base_url is not None:
            raise ValueError("the scripted model runs in the server: leave the base URL out")
        return ScriptedProvider()
    if kind == "openai" and model.strip():
        # Imported only here: the SDK takes longer to load than the whole server.
        from turnwire.models.openai import OpenAIProvider

        return OpenAIProvider(model.strip(), base_url=base_url)
    raise ValueError(f"unknown model {name!r}: expected {KNOWN}")
