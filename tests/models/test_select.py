"""Names of models on the command line."""

import subprocess
import sys

import pytest

from turnwire.models.anthropic import AnthropicProvider
from turnwire.models.openai import OpenAIProvider
from turnwire.models.scripted import ScriptedProvider
from turnwire.models.select import provider_for
from turnwire.models.service import BadService

LOCAL = "http://127.0.0.1:9/v1"


def test_T1_the_scripted_model_needs_nothing() -> None:
    assert isinstance(provider_for("scripted"), ScriptedProvider)


@pytest.mark.parametrize(("kind", "type_"), [("openai", OpenAIProvider), ("anthropic", AnthropicProvider)])
async def test_T1_a_service_of_ones_own_needs_no_key(
    kind: str, type_: type[OpenAIProvider] | type[AnthropicProvider]
) -> None:
    provider = provider_for(f"{kind}:org/model:7b", base_url=LOCAL)
    assert isinstance(provider, type_)
    assert provider.model == "org/model:7b"
    assert provider.name == f"{kind}:org/model:7b"
    await provider.aclose()
    await provider.aclose()


@pytest.mark.parametrize("name", ["", "openai", "openai:", "openai: ", "Scripted", "scripted:x", "gpt-4", "anthropic:"])
def test_T1_an_unknown_name_is_refused_with_what_is_known(name: str) -> None:
    with pytest.raises(ValueError, match="expected `scripted`, `openai:NAME` or `anthropic:NAME`"):
        provider_for(name)


def test_T1_a_base_url_for_the_scripted_model_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="leave the base URL out"):
        provider_for("scripted", base_url=LOCAL)


@pytest.mark.parametrize("url", ["127.0.0.1:9", "ftp://host/v1", "localhost"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_T1_a_base_url_must_be_http(kind: str, url: str) -> None:
    with pytest.raises(BadService, match="must begin with http"):
        provider_for(f"{kind}:m", base_url=url)


@pytest.mark.parametrize(
    ("make", "prefix"), [(OpenAIProvider, "OPENAI"), (AnthropicProvider, "ANTHROPIC")], ids=["openai", "anthropic"]
)
async def test_T1_the_service_itself_needs_a_key(
    make: type[OpenAIProvider] | type[AnthropicProvider], prefix: str
) -> None:
    with pytest.raises(BadService, match=f"{prefix}_API_KEY is not set"):
        make("m", environ={})
    for environ in ({f"{prefix}_API_KEY": "sk-1"}, {f"{prefix}_BASE_URL": LOCAL}):
        await make("m", environ=environ).aclose()


def test_T1_a_missing_sdk_is_a_sentence_that_says_what_to_install() -> None:
    program = "import sys; sys.modules['anthropic'] = None; from turnwire.cli import main; main()"
    command = [sys.executable, "-c", program, "serve", "--model", "anthropic:m", "--base-url", LOCAL, "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr == (
        "turnwire serve: anthropic:NAME needs the package `anthropic`, which is not installed: "
        "pip install 'turnwire[anthropic]'\n"
    )


def test_T1_no_sdk_is_loaded_before_it_is_needed() -> None:
    program = "import sys, turnwire.cli, turnwire; print(*{'openai', 'anthropic'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout.strip() == ""
