"""Tools that work on one folder, the workspace, and never outside of it.

Each is off until it is allowed by name. `place` says what a path may be, `walk` what lies in a folder; `files`,
`search`, `changes` and `commands` are the tools, and `offer` makes those that are allowed.
"""

from skills_core.run.tools.workspace.factory import workspace_tools
from skills_core.run.tools.workspace_names import WorkspaceTool

__all__ = ["WorkspaceTool", "workspace_tools"]
