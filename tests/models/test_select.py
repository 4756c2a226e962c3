"""Names of models on the command line."""

import pytest

from turnwire.models.openai import BadService, OpenAIProvider
from turnwire.models.scripted import ScriptedProvider
from turnwire.models.select import provider_for

LOCAL = "http://127.0.0.1:9/v1"


def test_T1_the_scripted_model_needs_nothing() -> None:
    assert isinstance(provider_for("scripted"), ScriptedProvider)


async def test_T1_a_service_of_ones_own_needs_no_key() -> None:
    provider = provider_for("openai:org/model:7b", base_url=LOCAL)
    assert isinstance(provider, OpenAIProvider)
    assert provider.model == "org/model:7b"
    assert provider.name == "openai:org/model:7b"
    await provider.aclose()
    await provider.aclose()


@pytest.mark.parametrize("name", ["", "openai", "openai:", "openai: ", "Scripted", "scripted:x", "gpt-4", ":x"])
def test_T1_an_unknown_name_is_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(ValueError, match="expected `scripted` or `openai:NAME`"):
        provider_for(name)


def test_T1_a_base_url_for_the_scripted_model_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="leave the base URL out"):
        provider_for("scripted", base_url=LOCAL)


@pytest.mark.parametrize("url", ["127.0.0.1:9", "ftp://host/v1", "localhost"])
def test_T1_a_base_url_must_be_http(url: str) -> None:
    with pytest.raises(BadService, match="must begin with http"):
        provider_for("openai:m", base_url=url)


async def test_T1_openai_itself_needs_a_key() -> None:
    with pytest.raises(BadService, match="OPENAI_API_KEY is not set"):
        OpenAIProvider("gpt-4o", environ={})
    for environ in ({"OPENAI_API_KEY": "sk-1"}, {"OPENAI_BASE_URL": LOCAL}):
        await OpenAIProvider("gpt-4o", environ=environ).aclose()
