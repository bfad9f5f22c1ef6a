"""The token of the admin endpoint, and the names of the tools for operators."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, SecretStr

SKILLS_STATUS: Final = "skills_status"
RELOAD_SKILLS: Final = "reload_skills"
STATUS_URI: Final = "skillserve://status"

_HEADER_TEXT = r"[\x21-\x7e]{16,1024}"
# A value that fits into a header and is too long to guess.


class AdminSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The admin endpoint of the HTTP transport, which reports the status and reloads skills."""

    token: SecretStr | None = None
    """Bearer token of the admin endpoint: 16 to 1024 printable ASCII characters without spaces. Without it the admin
    endpoint is not served over HTTP. There is no flag for it, because other users can see command lines."""

    def __post_init__(self) -> None:
        if self.token is not None and not re.fullmatch(_HEADER_TEXT, self.token.get_secret_value()):
            # A pattern in the type would put the value into its message.
            raise InvalidValueError("expected 16 to 1024 printable ASCII characters without spaces", ("token",))


SECTION: Final = Section(name="admin", kind=AdminSettings, prefix="admin_", secrets=frozenset({"token"}))
