"""Step kinds that do one thing, behind the runtime's `Toolbox`, and what one attempt is wrapped in."""

from jackline_server.tools.tool_call import ToolCall

__all__ = ["ToolCall"]
