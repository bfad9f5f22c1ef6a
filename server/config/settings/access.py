"""Access: which skills the callers with each role see, which tools they may use, and which profiles there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from msgspec import Meta, Struct, field

from server.config.settings.tools import OptionalTool
from server.config.values import InvalidValueError, NonEmpty

ProfileName = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}\Z")]
"""A name that is the same in a path and in a header, however they are encoded."""

_SHOWN = 80
# Characters of a wrong value in a message.


class AccessSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which skills callers see, and which tools they may use. Without `roles`, all callers see all skills."""

    roles: Mapping[str, tuple[NonEmpty, ...]] = field(default_factory=dict)
    """The skills that each role sees: names, in which `*` stands for any characters, `tag:NAME`, `source:SCOPE` or
    `source:PATH`. A caller sees what any of its roles sees, and nothing else."""
    tools: Mapping[str, tuple[NonEmpty, ...]] = field(default_factory=dict)
    """The tools that each role may use, beside those that load, read and find skills: names, in which `*` stands for
    any characters. A caller may use what any of its roles may use, and nothing else. Without this table, all callers
    may use all tools that the settings switch on."""
    profiles: Mapping[ProfileName, tuple[NonEmpty, ...]] = field(default_factory=dict)
    """The roles of each profile. A client that chooses a profile has those of its roles that are also the profile's."""
    default_roles: tuple[NonEmpty, ...] = ()
    """Roles that every caller has, beside those of its token. Over stdio and without a login, callers have no others.
    """

    def __post_init__(self) -> None:
        if self.roles:
            for role in self.tools:
                self._check_role(role, ("tools", role))
        for role, entries in self.tools.items():
            _check_tools(entries, ("tools", role))
        for name, roles in self.profiles.items():
            self._check_roles(roles, ("profiles", name))
        self._check_roles(self.default_roles, ("default_roles",))

    @property
    def known_roles(self) -> frozenset[str]:
        """The roles that make a difference."""
        return frozenset(self.roles or self.tools)

    def _check_roles(self, roles: Iterable[str], path: tuple[str, ...]) -> None:
        for number, role in enumerate(roles):
            self._check_role(role, (*path, str(number)))

    def _check_role(self, role: str, path: tuple[str, ...]) -> None:
        if role not in self.known_roles:
            table = "roles" if self.roles or not self.tools else "tools"
            known = ", ".join(getattr(self, table)) or "none"
            raise InvalidValueError(f"{role[:_SHOWN]!r}: expected a role of {table!r}, which has: {known}", path)

    def __hash__(self) -> int:
        # Tables are not hashable.
        return hash(self.default_roles)


def _check_tools(entries: Iterable[str], path: tuple[str, ...]) -> None:
    for number, entry in enumerate(entries):
        if "*" not in entry and "__" not in entry and entry not in list(OptionalTool):
            expected = "SKILL__TOOL for a tool that a skill declares, a pattern with '*', or one of"
            raise InvalidValueError(
                f"{entry[:_SHOWN]!r}: expected {expected} {', '.join(OptionalTool)}", (*path, str(number))
            )
