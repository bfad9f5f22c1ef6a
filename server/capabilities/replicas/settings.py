"""Replicas: several servers that serve the same skills behind one proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, NonEmpty, SecretStr

_SCHEMES = frozenset({"redis", "rediss", "unix"})


class ReplicaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replicas: several servers with the same skills behind one proxy, over HTTP. They need the extra `team`."""

    redis_url: SecretStr | None = None
    """The Redis by which the replicas hear of each other: `redis://…`, `rediss://…` for TLS, or `unix://…`. It needs
    `secret` or `secret_file`. There is no flag for it, because it may contain a password."""
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] = "skillserve"
    """The name of the group: servers with the same name, Redis and secret are replicas of each other."""
    secret: SecretStr | None = None
    """The secret that the replicas share: at least 32 characters without white space. Several are separated by white
    space: the first one seals, all of them open. There is no flag for it."""
    secret_file: NonEmpty | None = None
    """A file with that secret, by its absolute path, instead of `secret`."""

    def __post_init__(self) -> None:
        if self.secret is not None and self.secret_file is not None:
            raise InvalidValueError("set either replicas.secret or replicas.secret_file", ("secret_file",))
        if self.secret_file is not None and not Path(self.secret_file).expanduser().is_absolute():
            raise InvalidValueError("expected an absolute path", ("secret_file",))
        if self.redis_url is None:
            return
        # No message repeats the value.
        if not _is_redis(self.redis_url.get_secret_value()):
            raise InvalidValueError("expected redis://HOST:PORT, rediss://HOST:PORT or unix://PATH", ("redis_url",))
        if self.secret is None and self.secret_file is None:
            message = "replicas.secret_file or replicas.secret is missing; the replicas seal what they share with it"
            raise InvalidValueError(message, ("redis_url",))

    @property
    def enabled(self) -> bool:
        """Whether this server is one of several replicas."""
        return self.redis_url is not None


def _is_redis(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and bool(parts.path if parts.scheme == "unix" else parts.hostname)


SECTION: Final = Section(name="replicas", kind=ReplicaSettings, prefix="replicas_", secrets=frozenset({"redis_url"}))
