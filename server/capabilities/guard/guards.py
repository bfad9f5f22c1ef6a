"""Guards with the patterns of the settings and of skills: for one call, and for the callers of a server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from server.capabilities.guard.settings import GuardSettings
from skills_core.guard.guard import Guard, GuardRule, Verdict, log_decision, rules_of

if TYPE_CHECKING:
    from server.hosting.host import Host
    from server.hosting.views import View
    from skills_core.catalog.catalog import Catalog
    from skills_core.guard.guard import GuardDecision
    from skills_core.skills.skill import Skill


def guard_of(skills: Iterable[Skill], settings: GuardSettings) -> Guard:
    """Return a guard with the patterns of the settings and of `skills`."""
    own = [
        *(GuardRule(pattern, Verdict.DENY) for pattern in settings.danger_patterns),
        *(GuardRule(pattern, Verdict.CONFIRM) for pattern in settings.confirm_patterns),
    ]
    return Guard([*own, *rules_of(skills)])


class ServerGuard:
    """Gives the guard for a caller, and compiles the rules once a catalog.

    It decides by the rules of all active skills, whatever the caller sees: the rules protect the server and its users,
    and a caller who sees less must not be allowed more. Its reasons disclose only the rules of skills in the caller's
    view, and those of the configuration.
    """

    def __init__(self, host: Host) -> None:
        """Guard calls of the clients of `host`; compile nothing yet."""
        self._host = host
        self._settings = host.settings.section(GuardSettings)
        self._compiled: tuple[Catalog, Guard] | None = None

    def for_view(self, view: View) -> Guard:
        """Return the guard for callers with this view. It may take long, so run it in a worker thread."""
        catalog = self._host.everything
        compiled = self._compiled
        if compiled is None or compiled[0] is not catalog:
            compiled = self._compiled = (catalog, guard_of(catalog.active, self._settings))
        guard = compiled[1]
        if not self._host.views_differ:
            return guard
        return guard.disclosing(view.catalog.shown)

    async def decide(self, tool: str, arguments: Mapping[str, Any], view: View) -> GuardDecision:
        """Return and log what the guard decides on a call by a client with this view."""
        import anyio.to_thread  # the hook, which starts for each call, does without

        # Compiling the patterns of many skills, or searching a long text, must not hold up the other requests.
        return await anyio.to_thread.run_sync(self._decide, tool, dict(arguments), view)

    def _decide(self, tool: str, arguments: dict[str, Any], view: View) -> GuardDecision:
        decision = self.for_view(view).decide(tool, arguments)
        log_decision(tool, decision)
        return decision
