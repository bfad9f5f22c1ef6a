"""Tools that work on one folder, the workspace, and never outside of it.

Each is off until it is allowed by name. `place` says what a path may be, `walk` what lies in a folder; `files`,
`search`, `changes` and `commands` are the tools, and `offer` makes those that are allowed.
"""

from skills_core.run.tools.names import WorkspaceTool
from skills_core.run.tools.workspace.offer import workspace_tools

__all__ = ["WorkspaceTool", "workspace_tools"]
