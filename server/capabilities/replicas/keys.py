"""The secrets that replicas share, from the settings or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from server.capabilities.replicas.errors import ReplicaSettingsError
from skills_core.disk.files import read_bounded
from skills_core.errors import FileRefusedError, FileUnavailableError

if TYPE_CHECKING:
    from server.capabilities.replicas.settings import ReplicaSettings

__all__ = ["shared_keys"]

_MIN_LENGTH = 32
_MAX_BYTES = 65_536


def shared_keys(settings: ReplicaSettings) -> tuple[str, ...]:
    """Return the shared secrets: the first one seals, all of them open. Without a secret there are none.

    Raises:
        ReplicaSettingsError: the file cannot be read, or a secret is too short or there twice.
    """
    if settings.secret is not None:
        text, origin = settings.secret.get_secret_value(), "replicas.secret"
    elif settings.secret_file is not None:
        path = Path(settings.secret_file).expanduser()
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
