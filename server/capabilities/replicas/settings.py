"""Replicas: several servers that serve the same skills behind one proxy, and the secrets that they share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, NonEmpty, SecretStr, home_path
from skills_core.disk.files import read_bounded
from skills_core.errors import FileRefusedError, FileUnavailableError, SkillsError


class ReplicaSettingsError(SkillsError):
    """This server cannot be a replica with its settings."""


_SCHEMES = frozenset({"redis", "rediss", "unix"})
_MIN_LENGTH = 32
_MAX_BYTES = 65_536


class ReplicaSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replicas: several servers with the same skills behind one proxy, over HTTP. They need the extra `team`."""

    redis_url: SecretStr | None = None
    """The Redis through which the replicas send each other messages: `redis://…`, `rediss://…` for TLS, or `unix://…`.
    It needs `secret` or `secret_file`. There is no flag for it, because it may contain a password."""
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
        if self.secret_file is not None and not home_path(self.secret_file).is_absolute():
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


def shared_keys(settings: ReplicaSettings) -> tuple[str, ...]:
    """Return the shared secrets: the first one seals, all of them open. Without a secret there are none.

    Raises:
        ReplicaSettingsError: the file cannot be read, or a secret is too short or there twice.
    """
    if settings.secret is not None:
        text, origin = settings.secret.get_secret_value(), "replicas.secret"
    elif settings.secret_file is not None:
        path = home_path(settings.secret_file)
        text, origin = _read(path), str(path)
    else:
        return ()
    keys = tuple(text.split())
    # No message repeats a secret.
    if not keys or any(len(key) < _MIN_LENGTH for key in keys):
        how = "create one with `openssl rand -hex 32`"
        raise ReplicaSettingsError(f"{origin}: expected secrets of at least {_MIN_LENGTH} characters; {how}")
    if len(set(keys)) < len(keys):
        raise ReplicaSettingsError(f"{origin}: the same secret is there twice")
    return keys


def _read(path: Path) -> str:
    try:
        content = read_bounded(path, _MAX_BYTES)
        if content is None:
            raise ReplicaSettingsError(f"cannot read the secret of the replicas in {path}: there is no such file")
        return content.decode("utf-8-sig")
    except (FileRefusedError, FileUnavailableError) as error:
        message = f"cannot read the secret of the replicas: {error}"
    except UnicodeDecodeError:
        message = f"cannot read the secret of the replicas in {path}: it is not UTF-8"
    raise ReplicaSettingsError(message) from None
