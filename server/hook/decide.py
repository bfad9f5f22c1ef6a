"""What becomes of a call: the patterns decide, and where some of them cannot be known, the user does."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from server.config.bootstrap import log_to_stderr
from server.config.guard_factory import guard_of
from server.hook.settings import settings_there
from server.hook.skills import find_skills
from skills_core.diagnostics import one_line, shortened
from skills_core.guard.guard import Decision, Verdict, log_decision

if TYPE_CHECKING:
    from server.hook.call import HookCall
    from server.hook.options import HookOptions

__all__ = ["judge"]

_MODES_THAT_ASK: Final = frozenset({None, "default", "acceptEdits", "plan"})
# In its other modes Claude Code was seen to take "ask" for consent, or to ask nobody: its issues 77212, 89561, 95726.

_SHOWN: Final = 500

logger = logging.getLogger(__name__)


def judge(call: HookCall, options: HookOptions) -> Decision:
    """Return what becomes of a call, and log it unless it is allowed."""
    there = settings_there(call.directory, options)
    log_to_stderr(there.settings.logging)
    found = find_skills(options, there.settings, there.machine)
    decision = guard_of(found.skills, there.settings.guard).decide(call.tool, call.arguments)
    doubts = [*(shortened(doubt, _SHOWN) for doubt in there.doubts), *found.doubts]
    log_decision(call.tool, decision)
    if decision.verdict is Verdict.ALLOW and doubts:
        more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
        reason = f"skillserve cannot tell whether {_shown(call)} is allowed: {doubts[0]}{more}."
        decision = Decision(Verdict.CONFIRM, reason)
        logger.warning("guard: %s", reason)
    if decision.verdict is Verdict.CONFIRM and (options.never_ask or call.mode not in _MODES_THAT_ASK):
        why = "--never-ask" if options.never_ask else f"the permission mode {one_line(str(call.mode))[:40]}"
        logger.info("guard: deny, as nobody is asked with %s", why)
        return Decision(Verdict.DENY, f"{decision.reason} Nobody can be asked ({why}), so the call is denied.")
    return decision


def _shown(call: HookCall) -> str:
    return f"the call of {one_line(call.tool)[:100]}"
