"""The folder with the plugins of this user: each appears in it, changes and disappears as a whole.

Commands that change it exclude each other by a lock. A command that was killed may leave a hidden folder, or, where the
system cannot exchange folders, a plugin's previous folder under a hidden name; the next command cleans up.

A plugin's skills before and after a change are compared: which are added, updated or removed, and which are older.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from server.capabilities.remote.plugins.installed import RECEIPT_FILE, PluginError, read_receipt
from skills_core.diagnostics import Reason, one_line
from skills_core.disk.folders import is_ignored
from skills_core.disk.replacement import replace_folder
from skills_core.disk.writing import exclusive
from skills_core.errors import did_you_mean, similar_to
from skills_core.format.frontmatter import version_precedence
from skills_core.remote.installation import disk_faults, edited_files, hidden_folder, kind_of, remove_hidden

if TYPE_CHECKING:
    from server.capabilities.remote.plugins.installed import PluginReceipt, SkillReceipt


_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_STAGING: Final = ".skillserve-plugin-"
_PREVIOUS: Final = ".skillserve-previous-"


class PluginsFolder:
    """The plugins in `root`, each in the folder of its name."""

    def __init__(self, root: Path) -> None:
        """Use `root`, which need not exist."""
        self.root = root

    def place(self, name: str) -> Path:
        """Return the folder for a plugin.

        Raises:
            PluginError: a plugin cannot have this name.
        """
        if _NAME.fullmatch(name) is None or is_ignored(name) or disk_faults([name], windows=True):
            message = (
                f"'{one_line(name[:80])}' cannot be the name of a plugin; use 1 to 64 letters, digits, "
                "'.', '_' and '-', with a letter or digit at both ends"
            )
            raise PluginError(Reason.INVALID_NAME, message)
        return self.root / name

    def names(self) -> tuple[str, ...]:
        """Return the names of the plugins that skillserve installed."""
        try:
            return tuple(sorted(path.parent.name for path in self.root.glob(f"[!.]*/{RECEIPT_FILE}")))
        except OSError:
            return ()

    def receipt(self, name: str) -> PluginReceipt:
        """Return the receipt of an installed plugin.

        Raises:
            PluginError: there is none of this name, skillserve did not install it, or its receipt cannot be read.
        """
        place = self.place(name)
        kind = kind_of(place)
        if kind is None:
            hint = did_you_mean(similar_to(name, self.names())) or " `skillserve plugin list` lists them."
            raise PluginError(Reason.UNKNOWN_PLUGIN, f"there is no plugin '{name}'.{hint}")
        if kind != stat.S_IFDIR:
            message = f"{place}: this is a link or a file, not a plugin's folder; move it away"
            raise PluginError(Reason.FOLDER_TAKEN, message)
        try:
            return read_receipt(place)
        except PluginError as error:
            raise PluginError(error.reason, f"{place}: {error.message}") from None

    def edits(self, name: str, receipt: PluginReceipt) -> list[str]:
        """Return the files of a plugin that differ from its receipt, including added and removed ones."""
        return edited_files(self.place(name), receipt.files, record=RECEIPT_FILE)

    @contextmanager
    def changing(self) -> Generator[None]:
        """Exclude other commands that change plugins, and clean up after killed ones.

        Raises:
            PluginError: another command is at work, or the folder cannot be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with exclusive(self.root / ".skillserve-plugins"):
                self._clean_up()
                yield
        except TimeoutError:
            message = f"{self.root}: another command is changing plugins; try again when it is done"
            raise PluginError(Reason.UNWRITABLE, message) from None
        except OSError as error:
            message = f"cannot be written: {(error.strerror or str(error)).lower()}"
            raise PluginError(Reason.UNWRITABLE, f"{error.filename or self.root}: {message}") from None

    @contextmanager
    def staging(self, *, elsewhere: bool = False) -> Generator[Path]:
        """Create a hidden folder for the time of the block; `elsewhere` is for what is never put in its place."""
        with hidden_folder(None if elsewhere else self.root, _STAGING) as folder:
            yield folder

    def put(self, staged: Path, name: str) -> None:
        """Move a staged folder to the place of a plugin, and remove the previous one.

        Raises:
            OSError: the system refuses; the plugin is unchanged then.
        """
        place = self.place(name)
        if kind_of(place) is None:
            staged.rename(place)
        else:
            remove_hidden(replace_folder(staged, place, self.root / f"{_PREVIOUS}{name}"))

    def remove(self, name: str) -> None:
        """Remove a plugin.

        Raises:
            OSError: the system refuses; the plugin is unchanged then.
        """
        with self.staging() as staging:
            self.place(name).rename(staging / name)

    def _clean_up(self) -> None:
        for left in self.root.glob(f"{_PREVIOUS}*"):
            place = self.root / left.name.removeprefix(_PREVIOUS)
            if kind_of(place) is None:
                left.rename(place)
            else:
                remove_hidden(left)
        for left in self.root.glob(f"{_STAGING}*"):
            remove_hidden(left)


class SkillChangeKind(StrEnum):
    """What an installation or update does to a skill."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class SkillChange:
    """A skill before and after; one of them is None if it is added or removed."""

    before: SkillReceipt | None
    after: SkillReceipt | None

    @property
    def skill(self) -> SkillReceipt:
        """The skill afterwards, or before if it is removed."""
        skill = self.after or self.before
        assert skill is not None  # noqa: S101 - there is one of them
        return skill

    @property
    def kind(self) -> SkillChangeKind:
        """What happens to the skill."""
        if self.before is None:
            return SkillChangeKind.ADDED
        if self.after is None:
            return SkillChangeKind.REMOVED
        same = (self.before.digest, self.before.folder) == (self.after.digest, self.after.folder)
        return SkillChangeKind.UNCHANGED if same else SkillChangeKind.UPDATED

    @property
    def is_downgrade(self) -> bool:
        """Whether the new version precedes the old one; only semantic versions can be compared."""
        before = version_precedence((self.before and self.before.version) or "")
        after = version_precedence((self.after and self.after.version) or "")
        return before is not None and after is not None and after < before


def compare_skills(before: Sequence[SkillReceipt], after: Sequence[SkillReceipt]) -> tuple[SkillChange, ...]:
    """Return the change of each skill, by URI; removed skills come last."""
    old = {skill.uri: skill for skill in before}
    new = {skill.uri for skill in after}
    return (
        *(SkillChange(old.get(skill.uri), skill) for skill in after),
        *(SkillChange(skill, None) for skill in before if skill.uri not in new),
    )
