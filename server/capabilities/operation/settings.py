"""How operators watch and stop a server: metrics, and the time for running requests after SIGTERM."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, SecretStr


class OperationSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics and the stop of a server over HTTP."""

    metrics: bool = False
    """Whether `/metrics` serves figures for Prometheus. This requires the extra `team`. Where clients need a login,
    readers need the role `metrics` or `admin`."""
    drain_seconds: Annotated[float, Meta(ge=0, le=3600)] = 5.0
    """Seconds that running requests have to finish after the first SIGTERM or SIGINT, before they are cancelled. Raise
    it where clients run skills, and keep it some seconds below the time after which the process is killed."""
    drain_notice_seconds: Annotated[float, Meta(ge=0, le=3600)] = 0.0
    """Seconds that the server goes on serving after the signal even if nothing is running, while `/ready` answers 503.
    Set it to the time in which your proxy notices that, if the proxy looks at `/ready`."""


SECTION: Final = Section(name="operation", kind=OperationSettings)

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


ADMIN_SECTION: Final = Section(name="admin", kind=AdminSettings, prefix="admin_", secrets=frozenset({"token"}))
