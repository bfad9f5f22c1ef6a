"""Tools that work on one folder, the workspace, and never outside of it.

Each is off until it is allowed by name. `folder` resolves paths and lists folders; `files` and `commands` are the
tools, and `factory` creates the allowed ones.
"""

from skills_core.runs.tools.workspace.factory import workspace_tools
from skills_core.runs.tools.workspace_names import WorkspaceTool

__all__ = ["WorkspaceTool", "workspace_tools"]
