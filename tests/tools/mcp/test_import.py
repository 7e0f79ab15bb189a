"""The SDK takes a second to import and thirty megabytes: a server without MCP connections never sees it."""

import subprocess
import sys


def test_a_server_that_is_put_together_has_not_imported_the_sdk() -> None:
    code = "import sys, jackline_server.serving; sys.exit('mcp' in sys.modules or 'mcp_types' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
