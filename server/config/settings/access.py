"""Access: which skills the callers with each role see."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from server.config.values import InvalidValueError, NonEmpty

__all__ = ["AccessSettings"]


class AccessSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which skills callers see. Without `roles`, all callers see all skills."""

    roles: Mapping[str, tuple[NonEmpty, ...]] = field(default_factory=dict)
    """The skills that each role sees: names, in which `*` stands for any characters, `tag:NAME`, `source:SCOPE` or
    `source:PATH`. A caller sees what any of its roles sees, and nothing else."""
    default_roles: tuple[NonEmpty, ...] = ()
    """Roles that every caller has, beside those of its token. Over stdio and without a login, callers have no others.
    """

    def __post_init__(self) -> None:
        for role in self.default_roles:
            if role not in self.roles:
                known = ", ".join(self.roles) or "none"
                raise InvalidValueError(
                    f"{role[:80]!r}: expected a role of 'roles', which has: {known}", ("default_roles",)
                )

    def __hash__(self) -> int:
        # Tables are not hashable.
        return hash(self.default_roles)
