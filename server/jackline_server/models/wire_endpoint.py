"""Where a model on the OpenAI chat wire is, and what goes with each request there.

Owns how a profile, a model's name and the environment make an address and headers. Pure. Does not own the
table of providers (`runtime.model_providers`) nor what is asked (`wire_body`).
"""

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from jackline_server.core.facts import FailureClass
from jackline_server.core.frozen import frozen
from jackline_server.models.failures import refused
from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.model_providers import (
    AZURE,
    OPENAI,
    WIRE_PROVIDERS,
    WireProvider,
    read_model_name,
)
from jackline_server.runtime.ports.http import Origin

AZURE_API_VERSION = "2024-10-21"
"""Asked for where a profile names none: the newest that is no preview."""

_PORTS = {"http": 80, "https": 443}
_PATH_SAFE = "/%!$&'()*+,;=:@~"
_OPENAI_HEADERS = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}
_LONG = 8
_NO_PROVIDER = WireProvider()


@frozen
class WireEndpoint:
    """One model at one address. `secrets` are what no message may show: keys, and the address itself.

    `key` is the one that is sent, empty if none is.
    """

    provider: str
    model: str
    origin: Origin
    target: str
    headers: Mapping[str, str]
    key: str
    secrets: tuple[str, ...]


def wire_endpoint(name: str, profile: ModelProfile, environ: Mapping[str, str]) -> WireEndpoint:
    """The endpoint of a model by its name.

    The environment is asked only where the profile gives no `base_url`: a key never goes to an address that
    its owner did not write beside it.

    Raises:
        ModelFailure: the address or the key is missing, or the address can't be read.
    """
    read = read_model_name(name)
    provider = WIRE_PROVIDERS.get(read.provider, _NO_PROVIDER)
    own = profile.base_url
    url = own or _first(environ, provider.base_variables) or provider.base_url
    if not url:
        raise refused(
            FailureClass.BAD_REQUEST,
            f'nothing says where the model {name!r} is; set base_url in its profile, or adapter = "litellm"',
        )
    key = profile.api_key.reveal() if profile.api_key else ""
    if not key and own is None:
        key = _first(environ, provider.key_variables)
    if not key and provider.needs_key and own is None:
        raise refused(
            FailureClass.AUTHENTICATION,
            f"there is no key for the model {name!r}; "
            f"set api_key in its profile, or {provider.key_variables[0]}",
        )
    origin, path = _read_url(url)
    if provider.appends and not path.endswith(provider.appends):
        path += provider.appends
    extra = {name: value.reveal() for name, value in profile.headers.items()}
    return WireEndpoint(
        provider=read.provider,
        model=read.model,
        origin=origin,
        target=_azure_target(path, read.model, profile)
        if read.provider == AZURE
        else f"{path}/chat/completions",
        headers=_headers(read.provider, key, extra, environ if own is None else {}),
        key=key,
        secrets=tuple(filter(None, (key, *extra.values(), url, origin.host, *_long_texts(profile)))),
    )


def _headers(
    provider: str, key: str, extra: Mapping[str, str], environ: Mapping[str, str]
) -> Mapping[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}
    if key:
        headers |= {"api-key": key} if provider == AZURE else {"Authorization": f"Bearer {key}"}
    if provider == OPENAI:
        headers |= {
            name: environ[variable] for variable, name in _OPENAI_HEADERS.items() if environ.get(variable)
        }
    taken = {name.lower() for name in extra}
    return {name: value for name, value in headers.items() if name.lower() not in taken} | dict(extra)


def _azure_target(path: str, model: str, profile: ModelProfile) -> str:
    """A deployment's path. An address that ends with `/v1` is that of Azure's newer API, without versions."""
    if path.endswith("/v1"):
        version = f"?api-version={quote(profile.api_version, safe='')}" if profile.api_version else ""
        return f"{path}/chat/completions{version}"
    if "/deployments/" not in path:
        base = path.removesuffix("/openai")
        path = f"{base}/openai/deployments/{quote(model, safe='')}"
    version = profile.api_version or AZURE_API_VERSION
    return f"{path}/chat/completions?api-version={quote(version, safe='')}"


def _long_texts(profile: ModelProfile) -> tuple[str, ...]:
    """The parameters that may be secret; a short word is none, and would tear holes into any message."""
    return tuple(
        value for value in profile.parameters.values() if isinstance(value, str) and len(value) >= _LONG
    )


def _first(environ: Mapping[str, str], variables: tuple[str, ...]) -> str:
    return next((value for variable in variables if (value := environ.get(variable, "").strip())), "")


def _read_url(url: str) -> tuple[Origin, str]:
    """The origin, and the path without a slash at its end. Raises ModelFailure."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if ":" in host:
            host = str(ip_address(host))
        elif not host.isascii():
            host = host.encode("idna").decode()
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        host, port, parts = "", 0, urlsplit("")
    if not host or "@" in parts.netloc:
        raise refused(
            FailureClass.BAD_REQUEST,
            "the address of the model's server is no http or https URL; look at base_url in its profile",
        )
    path = quote(parts.path.rstrip("/"), safe=_PATH_SAFE)
    return Origin(scheme=parts.scheme, host=host, port=port), path
