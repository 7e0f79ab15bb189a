"""Which adapter a model's name leads to when nobody says."""

import pytest

from jackline_server.runtime.model_providers import (
    AZURE,
    WIRE_PROVIDERS,
    ModelName,
    automatic_adapter,
    read_model_name,
)
from tests.docs.pages import page, section


@pytest.mark.parametrize(
    ("name", "has_base_url", "has_key", "adapter"),
    [
        ("openai/gpt-4o-mini", False, False, "openai"),
        ("openai/my-model", True, False, "openai"),
        ("openai/meta-llama/Llama-3-8B", True, False, "openai"),
        ("openrouter/anthropic/claude", False, False, "openai"),
        ("hosted_vllm/m", True, False, "openai"),
        ("ollama/llama3", False, False, "openai"),
        ("litellm_proxy/x", True, False, "openai"),
        ("lm_studio/x", True, False, "openai"),
        ("llamafile/x", False, False, "openai"),
        ("azure/deployment", True, True, "openai"),
        ("azure/deployment", True, False, "litellm"),
        ("azure/deployment", False, True, "litellm"),
        ("my-model", True, False, "openai"),
        ("gpt-4o", False, False, "litellm"),
        ("anthropic/claude", False, False, "litellm"),
        ("anthropic/claude", True, True, "litellm"),
        ("gemini/x", False, False, "litellm"),
        ("groq/x", False, False, "litellm"),
        ("openai/", False, False, "litellm"),
        ("openai/responses/gpt-5", False, False, "litellm"),
        ("openai/gpt-5-codex", False, False, "litellm"),
        ("openai/o1-pro", False, False, "litellm"),
        ("openai/gpt-5-pro-2025-10-06", False, False, "litellm"),
        ("openai/o3-deep-research", False, False, "litellm"),
        ("openai/my-codex", True, False, "openai"),
        ("openai/processor", False, False, "openai"),
    ],
)
def test_the_name_and_the_profile_choose_the_adapter(
    name: str, has_base_url: bool, has_key: bool, adapter: str
) -> None:
    assert automatic_adapter(name, has_base_url=has_base_url, has_key=has_key) == adapter


def test_only_a_provider_of_the_table_is_taken_off_a_name() -> None:
    assert read_model_name("openai/gpt-4o") == ModelName(provider="openai", model="gpt-4o")
    assert read_model_name("openrouter/openai/gpt-4o") == ModelName(
        provider="openrouter", model="openai/gpt-4o"
    )
    assert read_model_name("meta-llama/Llama") == ModelName(provider="", model="meta-llama/Llama")
    assert read_model_name("gpt-4o") == ModelName(provider="", model="gpt-4o")


@pytest.mark.parametrize("name", WIRE_PROVIDERS)
def test_an_address_of_the_table_is_encrypted_or_on_this_machine(name: str) -> None:
    url = WIRE_PROVIDERS[name].base_url
    assert not url or url.startswith(("https://", "http://localhost:", "http://127.0.0.1:"))


def test_the_page_names_every_provider_and_its_variables() -> None:
    told = section(page("config.md"), "### Adapters")
    for name, provider in WIRE_PROVIDERS.items():
        assert f"`{name}`" in told
        if name != AZURE:  # without a key of the profile it is not this adapter's
            assert all(
                f"`{variable}`" in told for variable in (*provider.base_variables, *provider.key_variables)
            )
