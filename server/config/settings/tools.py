"""Which tools clients get in addition to those for skills, and which tool calls the guard stops."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from server.config.values import InvalidValueError

__all__ = ["OptionalTool", "ToolSettings"]


class OptionalTool(StrEnum):
    """Tools that are offered only if the settings name them."""

    SKILLS_STATUS = "skills_status"
    RELOAD_SKILLS = "reload_skills"
    SKILL_CONTEXT = "skill_context"
    CHECK_TOOL_CALL = "check_tool_call"
    RUN_SKILL_SCRIPT = "run_skill_script"
    RUN_SKILL = "run_skill"
    RUN_WORKFLOW = "run_workflow"
    SKILL_HISTORY = "skill_history"
    ROLLBACK_SKILL = "rollback_skill"
    SCHEDULE_SKILL = "schedule_skill"
    LIST_SCHEDULES = "list_schedules"
    SHOW_SCHEDULE = "show_schedule"
    PAUSE_SCHEDULE = "pause_schedule"
    RESUME_SCHEDULE = "resume_schedule"
    RUN_SCHEDULE = "run_schedule"
    REMOVE_SCHEDULE = "remove_schedule"


class ToolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tools that are off by default."""

    enabled: tuple[OptionalTool, ...] = ()
    """Optional tools to offer. `run_skill` and `run_workflow` also need a model, `run_workflow` workflows as well."""
    declared: tuple[str, ...] = ()
    """Tools declared by skills that runs and clients may call: `SKILL/TOOL`, or `SKILL/*` for all tools of a skill.
    Each starts a program of the skill, so name only what you trust."""

    def __post_init__(self) -> None:
        for number, entry in enumerate(self.declared):
            if not all(entry.partition("/")):
                message = f"{entry[:80]!r}: expected SKILL/TOOL, or SKILL/* for all tools of the skill"
                raise InvalidValueError(message, ("declared", str(number)))
