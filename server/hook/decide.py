"""Decide on a call: by the patterns, or by asking the user where some patterns could not be read."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from server.config.bootstrap import log_to_stderr
from server.config.guard_factory import guard_of
from server.hook.settings import settings_for_call
from server.hook.skills import load_guard_skills
from skills_core.diagnostics import one_line, shortened
from skills_core.guard.guard import Decision, Verdict, log_decision

if TYPE_CHECKING:
    from server.hook.call import HookCall
    from server.hook.options import HookOptions

__all__ = ["decide_call"]

_MODES_THAT_ASK: Final = frozenset({None, "default", "acceptEdits", "plan"})
# In other modes Claude Code was seen to treat "ask" as consent or not to ask at all: its issues 77212, 89561, 95726.

_MAX_DOUBT: Final = 500

logger = logging.getLogger(__name__)


def decide_call(call: HookCall, options: HookOptions) -> Decision:
    """Return the decision on a call, and log every decision but an undoubted "allow"."""
    context = settings_for_call(call.directory, options)
    log_to_stderr(context.settings.logging)
    found = load_guard_skills(options, context.settings, context.machine)
    decision = guard_of(found.skills, context.settings.guard).decide(call.tool, call.arguments)
    log_decision(call.tool, decision)
    doubts = [*(shortened(doubt, _MAX_DOUBT) for doubt in context.doubts), *found.doubts]
    if decision.verdict is Verdict.ALLOW and doubts:
        decision = _confirm(call, doubts)
    if decision.verdict is Verdict.CONFIRM and (options.never_ask or call.mode not in _MODES_THAT_ASK):
        return _deny_unasked(call, decision, options)
    return decision


def _confirm(call: HookCall, doubts: list[str]) -> Decision:
    """Ask the user about a call that the known patterns allow, because some patterns could not be read."""
    more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
    tool = one_line(call.tool)[:100]
    reason = f"skillserve cannot tell whether the call of {tool} is allowed: {doubts[0]}{more}."
    logger.warning("guard: %s", reason)
    return Decision(Verdict.CONFIRM, reason)


def _deny_unasked(call: HookCall, decision: Decision, options: HookOptions) -> Decision:
    """Deny a call that needs consent where the host would not ask for it."""
    why = "--never-ask" if options.never_ask else f"the permission mode {one_line(str(call.mode))[:40]}"
    logger.info("guard: deny, because the user cannot be asked with %s", why)
    return Decision(Verdict.DENY, f"{decision.reason} The user cannot be asked ({why}), so the call is denied.")
