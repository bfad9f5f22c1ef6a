"""Complete the names that only this machine knows: of skills, clients and roles.

A shell evaluates what it is given to complete with, and the names of skills come from strangers: only names without
characters that mean something to a shell are offered, and no descriptions. Nothing is said about what cannot be read,
because the user is writing a command line.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Final

from server.config.files import ConfigurationError
from skills_core.errors import SkillsError

_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")


def skill_names(incomplete: str) -> list[str]:
    """Return the names of the served skills of the configured and standard folders that begin like this."""
    from server.config.bootstrap import open_catalog, settings_of
    from server.config.machine import Machine, current_places

    def names() -> Iterable[str]:
        machine = Machine(current_places())
        return (skill.key for skill in open_catalog(None, settings_of(machine, {}), machine).active)

    return _plain_names(names, incomplete)


def client_names(incomplete: str) -> list[str]:
    """Return the keys of the known clients that begin like this."""
    from server.clients.known import KNOWN_CLIENTS

    return _plain_names(lambda: (client.key for client in KNOWN_CLIENTS), incomplete)


def role_names(incomplete: str) -> list[str]:
    """Return the roles of the settings that begin like this."""
    from server.config.bootstrap import settings_of
    from server.config.machine import Machine, current_places

    return _plain_names(lambda: settings_of(Machine(current_places()), {}).access.known_roles, incomplete)


def _plain_names(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    logging.disable()
    try:
        return sorted(name for name in names() if name.startswith(incomplete) and _PLAIN.fullmatch(name))
    except (SkillsError, ConfigurationError, OSError):
        return []
