"""What a model's name says: its provider, and whether that one speaks the OpenAI chat wire.

Owns the table of providers that the adapter `openai` serves, and the choice that `adapter = "auto"` makes.
Pure: an address or a key of the environment is named here and read elsewhere. Does not own how the wire is
spoken (`models`).

The table is short on purpose. Many more providers offer this wire beside their own; what they do differently
is litellm's to know, so that they are served by it until somebody says `adapter = "openai"`.
"""

import re
from collections.abc import Mapping
from typing import Literal

from jackline_server.core.frozen import frozen

OPENAI, LITELLM, SCRIPTED = "openai", "litellm", "scripted"
AZURE = "azure"

_NOT_CHAT = re.compile(r"responses/|codex|(?:^|-)pro(?:-|$)|deep-research|computer-use", re.IGNORECASE)
"""Models of OpenAI that are not served on the chat wire: litellm speaks another with them."""


@frozen
class WireProvider:
    """A provider on the OpenAI chat wire.

    `base_url` is its address, empty if only a profile can say. The first of `base_variables` and of
    `key_variables` that is set counts, where a profile says nothing. `needs_key` refuses a call without one.
    `appends` is put to an address that does not end with it.
    """

    base_url: str = ""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()
    needs_key: bool = False
    appends: str = ""


_OLLAMA = WireProvider(
    base_url="http://localhost:11434",
    base_variables=("OLLAMA_API_BASE",),
    key_variables=("OLLAMA_API_KEY",),
    appends="/v1",
)

WIRE_PROVIDERS: Mapping[str, WireProvider] = {
    OPENAI: WireProvider(
        base_url="https://api.openai.com/v1",
        base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        key_variables=("OPENAI_API_KEY",),
        needs_key=True,
    ),
    AZURE: WireProvider(
        base_variables=("AZURE_API_BASE",),
        key_variables=("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"),
        needs_key=True,
    ),
    "openrouter": WireProvider(
        base_url="https://openrouter.ai/api/v1",
        base_variables=("OPENROUTER_API_BASE",),
        key_variables=("OPENROUTER_API_KEY", "OR_API_KEY"),
        needs_key=True,
    ),
    "hosted_vllm": WireProvider(
        base_variables=("HOSTED_VLLM_API_BASE",), key_variables=("HOSTED_VLLM_API_KEY",)
    ),
    "llamafile": WireProvider(
        base_url="http://127.0.0.1:8080/v1",
        base_variables=("LLAMAFILE_API_BASE",),
        key_variables=("LLAMAFILE_API_KEY",),
    ),
    "lm_studio": WireProvider(base_variables=("LM_STUDIO_API_BASE",), key_variables=("LM_STUDIO_API_KEY",)),
    "litellm_proxy": WireProvider(
        base_variables=("LITELLM_PROXY_API_BASE",), key_variables=("LITELLM_PROXY_API_KEY",)
    ),
    "ollama": _OLLAMA,
    "ollama_chat": _OLLAMA,
}


@frozen
class ModelName:
    """A model's name taken apart. `provider` is empty if the table has none of that name."""

    provider: str
    model: str


def read_model_name(name: str) -> ModelName:
    """The provider before the first slash and the model behind it, or the whole as a model."""
    provider, slash, model = name.partition("/")
    if slash and model and provider in WIRE_PROVIDERS:
        return ModelName(provider=provider, model=model)
    return ModelName(provider="", model=name)


def automatic_adapter(
    name: str, *, has_base_url: bool = False, has_key: bool = False
) -> Literal["openai", "litellm"]:
    """What `auto` means for a model by its name, and by what its profile says.

    Azure has more ways to prove who calls than a key; with those it is litellm's. A bare name is one of a
    server of the operator's own if there is an address, else litellm looks whose it is.
    """
    read = read_model_name(name)
    match read.provider:
        case "":
            return OPENAI if has_base_url and "/" not in name else LITELLM
        case "azure":
            return OPENAI if has_base_url and has_key else LITELLM
        case "openai":
            return LITELLM if not has_base_url and _NOT_CHAT.search(read.model) else OPENAI
        case _:
            return OPENAI
