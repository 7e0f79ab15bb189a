"""Model profiles as a plan stores them."""

from jackline_server.config.settings import Config
from jackline_server.core.plan import ModelPlan

MODEL_RETRIES = 3
RETRY_BASE_MS = 1_000
RETRY_CAP_MS = 30_000


def model_plans(config: Config) -> dict[str, ModelPlan]:
    """Each profile of the config under its name, without anything secret or of this machine."""
    return {
        name: ModelPlan(
            profile=name,
            model=profile.model,
            adapter=profile.adapter,
            context_window=profile.context_window,
            max_output_tokens=profile.max_output_tokens,
            price=profile.price,
            price_is_ceiling=profile.price_is_ceiling,
            retries=MODEL_RETRIES,
            retry_base_ms=RETRY_BASE_MS,
            retry_cap_ms=RETRY_CAP_MS,
            native_schema="json_schema" in profile.supports,
            calls_tools="tools" in profile.supports,
            limits=profile.limits,
        )
        for name, profile in config.models.items()
    }
