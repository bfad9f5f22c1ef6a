"""Remove a secret from all versions of a history: commits are written anew, and the old ones are gone."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree

from skills_core.errors import HistoryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["FORGOTTEN", "MIN_SECRET", "Forgetter", "Secret"]

FORGOTTEN: Final = "[forgotten]"
"""What stands in the place of a forgotten secret."""

MIN_SECRET: Final = 8
"""Characters of the shortest secret: shorter ones occur in other texts by chance."""

_ENCODINGS: Final = ("utf-8", "utf-16-le", "utf-16-be")
_REVISION: Final = re.compile(rb"\b[0-9a-f]{10,40}\b")
_SHORT: Final = 10
# Digits by which the message of a rollback names a commit.


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, found as UTF-8 and UTF-16, and in JSON as that writes it."""

    text: str = field(repr=False)

    def __post_init__(self) -> None:
        """Check the length.

        Raises:
            HistoryError: it is too short.
        """
        if len(self.text) < MIN_SECRET:
            raise HistoryError(f"expected a secret of at least {MIN_SECRET} characters; shorter ones occur by chance")

    def is_in(self, content: bytes) -> bool:
        """Tell whether bytes contain it."""
        return any(form in content for form, _ in self._forms)

    def removed_from(self, content: bytes) -> bytes:
        """Return the bytes without it."""
        for form, instead in self._forms:
            content = content.replace(form, instead)
        return content

    @property
    def _forms(self) -> Iterable[tuple[bytes, bytes]]:
        forms = {self.text.encode(encoding, "surrogatepass"): FORGOTTEN.encode(encoding) for encoding in _ENCODINGS}
        # Names with other characters are escaped in the files with modes and in the messages of commits.
        escaped = "".join(char if " " <= char <= "~" else f"\\u{ord(char):04x}" for char in self.text)
        return {**forms, escaped.encode(): FORGOTTEN.encode()}.items()


@dataclass(slots=True)
class Forgetter:
    """Writes commits anew without a secret; `load` reads objects, `store` keeps them."""

    secret: Secret
    load: Callable[[ObjectID], ShaFile]
    store: Callable[[ShaFile], None]
    files: set[str] = field(default_factory=set)
    changed: int = 0
    _done: dict[ObjectID, ObjectID] = field(default_factory=dict)
    _revs: dict[bytes, bytes] = field(default_factory=dict)

    def rewritten(self, revs: Iterable[str]) -> str | None:
        """Return the newest of the rewritten commits; `revs` are all commits, the oldest first."""
        newest: ObjectID | None = None
        for rev in revs:
            number = ObjectID(rev.encode())
            commit = self.load(number)
            assert isinstance(commit, Commit)  # noqa: S101 - as the history wrote it
            newest = self._commit(number, commit, newest)
        return None if newest is None else newest.decode()

    def _commit(self, number: ObjectID, old: Commit, parent: ObjectID | None) -> ObjectID:
        new = Commit.from_string(old.as_raw_string())
        new.tree = self._tree(old.tree, "")
        new.parents = [] if parent is None else [parent]
        message = self.secret.removed_from(_REVISION.sub(self._renamed, old.message))
        new.message = message
        if new.id == number:
            return number
        self.changed += new.tree != old.tree or message != old.message
        self._revs |= {number: new.id, number[:_SHORT]: new.id[:_SHORT]}
        self.store(new)
        return new.id

    def _renamed(self, match: re.Match[bytes]) -> bytes:
        return self._revs.get(match[0], match[0])

    def _tree(self, number: ObjectID, path: str) -> ObjectID:
        if (done := self._done.get(number)) is not None:
            return done
        old, new = self.load(number), Tree()
        assert isinstance(old, Tree)  # noqa: S101 - as the history wrote it
        for item in old.items():
            name, mode, child = item.path or b"", item.mode or 0, ObjectID(item.sha or b"")
            where = f"{path}{name.decode('utf-8', 'surrogateescape')}"
            is_folder = isinstance(self.load(child), Tree)
            kept = self._tree(child, f"{where}/") if is_folder else self._blob(child, where)
            new.add(self.secret.removed_from(name), mode, kept)
        if new.id != number:
            self.store(new)
        self._done[number] = new.id
        return new.id

    def _blob(self, number: ObjectID, path: str) -> ObjectID:
        if (done := self._done.get(number)) is not None:
            return done
        old = self.load(number)
        assert isinstance(old, Blob)  # noqa: S101 - as the history wrote it
        if not self.secret.is_in(old.data):
            self._done[number] = number
            return number
        new = Blob.from_string(self.secret.removed_from(old.data))
        self.store(new)
        self.files.add(path)
        self._done[number] = new.id
        return new.id
