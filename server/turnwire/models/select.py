"""Which provider a name on the command line stands for."""

from turnwire.models.base import ModelProvider
from turnwire.models.scripted import ScriptedProvider

KNOWN = "`scripted`, `openai:NAME` or `anthropic:NAME`"

_ANTHROPIC_MISSING = (
    "anthropic:NAME needs the package `anthropic`, which is not installed: pip install 'turnwire[anthropic]'"
)


def provider_for(name: str, *, base_url: str | None = None) -> ModelProvider:
    """The provider: `scripted`, or model NAME of OpenAI or Anthropic, or of the compatible service at `base_url`.

    Raises ValueError with a sentence for the user: an unknown name, a missing API key or package, a URL that is none.
    """
    kind, _, model = name.partition(":")
    if name == "scripted":
        if base_url is not None:
            raise ValueError("the scripted model runs in the server: leave the base URL out")
        return ScriptedProvider()
    # The SDKs are imported only here: one takes longer to load than the whole server.
    if kind == "openai" and model.strip():
        from turnwire.models.openai import OpenAIProvider

        return OpenAIProvider(model.strip(), base_url=base_url)
    if kind == "anthropic" and model.strip():
        try:
            from turnwire.models.anthropic import AnthropicProvider
        except ModuleNotFoundError as error:
            if error.name != "anthropic":
                raise
            raise ValueError(_ANTHROPIC_MISSING) from None
        return AnthropicProvider(model.strip(), base_url=base_url)
    raise ValueError(f"unknown model {name!r}: expected {KNOWN}")
