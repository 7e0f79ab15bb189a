"""All model adapters behind the runtime's one door.

Owns which adapter serves a request and what guards it. Does not own the adapters' own
lifetimes: who made them closes them.
"""

from collections.abc import AsyncGenerator, Mapping

from jackline_server.core.facts import FailureClass
from jackline_server.core.plan import ModelPlan
from jackline_server.models.failures import refused
from jackline_server.models.limits import Guarded
from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.ports.models import ModelChunk, ModelRequest, Models


class ModelRouter:
    """Implements Models. `adapters` is by `ModelPlan.adapter`, `profiles` by `ModelPlan.profile`.

    Use it in one event loop.
    """

    def __init__(self, *, adapters: Mapping[str, Models], profiles: Mapping[str, ModelProfile]) -> None:
        self._adapters = adapters
        self._profiles = profiles
        self._guarded: dict[tuple[str, str], Guarded] = {}

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. A profile or adapter that this server does not have is BAD_REQUEST, raised at once."""
        return self._guard(request.plan).stream(request)

    def _guard(self, plan: ModelPlan) -> Guarded:
        """The adapter in its guard, made once for each profile."""
        key = (plan.adapter, plan.profile)
        guarded = self._guarded.get(key)
        if guarded is None:
            profile_of(plan, self._profiles)
            adapter = self._adapters.get(plan.adapter)
            if adapter is None:
                raise refused(
                    FailureClass.BAD_REQUEST,
                    f"this server has no model adapter {plan.adapter!r}, wanted by profile {plan.profile!r}",
                )
            guarded = self._guarded[key] = Guarded(adapter)
        return guarded


def profile_of(plan: ModelPlan, profiles: Mapping[str, ModelProfile]) -> ModelProfile:
    """The settings of a plan's profile.

    A workflow may name a model itself; its profile is then empty or the model's name, and the defaults hold.

    Raises:
        ModelFailure: BAD_REQUEST, the profile is not configured (any more).
    """
    profile = profiles.get(plan.profile)
    if profile is not None:
        return profile
    if plan.profile in ("", plan.model):
        return ModelProfile()
    raise refused(
        FailureClass.BAD_REQUEST,
        f"model profile {plan.profile!r} is not in this server's configuration; add it to [models]",
    )
