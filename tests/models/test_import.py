import subprocess
import sys


def test_importing_the_adapters_does_not_import_litellm() -> None:
    code = (
        "import sys, jackline_server.models.router, jackline_server.models.litellm_adapter as adapter\n"
        "adapter.LiteLLMModels(profiles={})\n"
        "assert not {'litellm', 'openai'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
