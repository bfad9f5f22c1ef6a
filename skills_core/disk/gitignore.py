"""Leave out what git ignores, for sources with `gitignore`.

Rules: gitignore(5). The nearest ignore file with a matching pattern decides; ignored folders are not scanned. The
ignore files above the source up to the root of the repository and its `info/exclude` apply too, the user's global file
does not.

As in git, an ignore file that is a link or a special file is skipped. If rules exist but cannot be read or used,
everything they may hide is left out.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skills_core.diagnostics import Reason
from skills_core.disk.files import Location, read_bounded
from skills_core.disk.folders import Listing
from skills_core.errors import Fault, FileRefusedError, fault_of

if TYPE_CHECKING:
    from pathspec import PathSpec
    from pathspec.pattern import RegexPattern

    from skills_core.disk.files import Reader

    Rules = PathSpec[RegexPattern]


FILE_NAME = ".gitignore"

UNUSABLE_RULES = (
    "these ignore rules cannot be used, so all they may hide is left out; the limits are 128 KiB and 2,000 patterns"
)

_MAX_SIZE = 128 * 1024
_MAX_PATTERNS = 2000
# Usual files have a few hundred. Compiling thousands takes seconds, and finding the invalid ones even longer.

_PASSED_OVER = frozenset({Reason.SYMLINK, Reason.SPECIAL_FILE})

_ALL_WITHIN = re.compile(r"/\*\*\s*$")


class _UnusableRulesError(Exception):
    """Rules exist, but whether they ignore a path cannot be known."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class GitIgnore:
    """The rules of one source during one scan; each ignore file is read when its folder is first checked."""

    def __init__(self, root: Path, reader: Reader, locate: Callable[[str], Location]) -> None:
        """Read ignore files with `reader`; `locate` maps a folder of the source to its location."""
        self._root = root
        self._reader = reader
        self._locate = locate
        self._specs: dict[str, Rules | None] = {}
        self._specs_above: list[tuple[str, Rules]] | None = None

    def without_ignored(self, folder: str, listing: Listing) -> Listing:
        """Return the listing without ignored entries, or one that refuses the ignore file if its rules are unusable.

        Raises:
            OSError: an ignore file exists and the system cannot read it.
        """
        try:
            return replace(
                listing.with_files(file for file in listing.files if not self._is_ignored(folder, file[0])),
                folders=tuple(name for name in listing.folders if not self._is_ignored(folder, f"{name}/")),
                refused=tuple(each for each in listing.refused if not self._is_ignored(folder, each[0])),
            )
        except _UnusableRulesError as error:
            return Listing(refused=((error.path, Reason.INVALID_CONFIGURATION),))

    def _is_ignored(self, folder: str, name: str) -> bool:
        path = f"{folder}/{name}" if folder else name
        for base, spec in self._nearest_first(folder):
            said = spec.check_file(path[len(base) :]).include
            if said is not None:
                return said
        for prefix, spec in self._above():
            said = spec.check_file(prefix + path).include
            if said is not None:
                return said
        return False

    def _nearest_first(self, folder: str) -> Iterator[tuple[str, Rules]]:
        """Yield the rules of a folder and of those above, each with the prefix of paths to remove."""
        while True:
            spec = self._spec(folder)
            if spec is not None:
                yield f"{folder}/" if folder else "", spec
            if not folder:
                return
            folder = folder.rpartition("/")[0]

    def _spec(self, folder: str) -> Rules | None:
        if folder not in self._specs:
            root, relative = self._locate(folder)
            location = Location(root, f"{relative}/{FILE_NAME}" if relative else FILE_NAME)
            try:
                self._specs[folder] = _parsed(self._reader.read(location, _MAX_SIZE)[0], FILE_NAME)
            except FileRefusedError as error:
                _pass_over(error, FILE_NAME)
                self._specs[folder] = None
        return self._specs[folder]

    def _above(self) -> list[tuple[str, Rules]]:
        if self._specs_above is None:
            self._specs_above = list(_specs_above(self._root))
        return self._specs_above


def _specs_above(root: Path) -> Iterator[tuple[str, Rules]]:
    """Yield the rules above the root of a source within its repository, the nearest first.

    Each comes with the prefix to add to paths of the source. Rules that ignore the root itself are left out, because
    the user named it as a source.
    """
    folders = [root, *root.parents]
    top = next((number for number, folder in enumerate(folders) if _is_repository(folder)), None)
    if top is None:
        return
    files = [(folder, folder / FILE_NAME) for folder in folders[1 : top + 1]]
    for folder, file in [*files, (folders[top], folders[top] / ".git" / "info" / "exclude")]:
        shown = os.path.relpath(file, root).replace(os.sep, "/")
        try:
            raw = read_bounded(file, _MAX_SIZE)
        except FileRefusedError as error:
            _pass_over(error, shown)
            continue
        if raw is None:
            continue
        prefix, spec = "".join(f"{part}/" for part in root.relative_to(folder).parts), _parsed(raw, shown)
        if not _ignores_folder(spec, prefix):
            yield prefix, spec


def _ignores_folder(spec: Rules, path: str) -> bool:
    """Tell whether rules ignore a folder or one above it."""
    return any(spec.check_file(path[: end + 1]).include for end, letter in enumerate(path) if letter == "/")


def _pass_over(error: FileRefusedError, path: str) -> None:
    """Return if an ignore file is absent, or is a link or special file that git skips as well.

    Raises:
        OSError: the system cannot read the rules.
        _UnusableRulesError: the rules cannot be used.
    """
    if error.fault is Fault.ABSENT or error.reason in _PASSED_OVER:
        return
    if error.fault in {Fault.DENIED, Fault.TRANSIENT}:
        number = errno.EACCES if error.fault is Fault.DENIED else errno.EIO
        raise OSError(number, f"the rules in {path} cannot be read: {error.message}") from None
    raise _UnusableRulesError(path)


def _is_repository(folder: Path) -> bool:
    # `Path.exists` reports some system errors as absence; which ones depends on the version of Python.
    try:
        (folder / ".git").stat()
    except OSError as error:
        if fault_of(error) not in {Fault.ABSENT, Fault.DENIED}:
            raise
        # A folder that this user may not enter is not their repository.
        return False
    return True


def _parsed(raw: bytes, path: str) -> Rules:
    """Return the rules in an ignore file.

    Raises:
        _UnusableRulesError: they are too many, or cannot be compiled.
    """
    # In pathspec `a/**` also matches the folder itself; in git it matches only what is in the folder.
    written = (line for line in raw.decode("utf-8", "replace").splitlines() if line and not line.startswith("#"))
    lines = [_ALL_WITHIN.sub("/**/*", line) for line in written]
    if len(lines) > _MAX_PATTERNS:
        raise _UnusableRulesError(path)
    spec = _compiled(lines) or _compiled(_patterns(lines))
    if spec is None:
        raise _UnusableRulesError(path)
    return spec


def _patterns(lines: list[str]) -> list[str]:
    """Return the lines that are valid patterns: git skips the others, pathspec would refuse the whole file."""
    if len(lines) <= 1:
        return lines if _compiled(lines) else []
    middle = len(lines) // 2
    halves = (lines[:middle], lines[middle:])
    return [line for half in halves for line in (half if _compiled(half) else _patterns(half))]


def _compiled(lines: list[str]) -> Rules | None:
    from pathspec import PathSpec  # noqa: PLC0415 - rarely needed; at the top, every start would pay for it

    try:
        # RE2 matches untrusted patterns in linear time; `re` does not.
        return PathSpec.from_lines(_pattern, lines, backend="re2")
    except Exception:  # noqa: BLE001 - errors of pathspec, `re` and RE2 have no common base class
        return None


def _pattern(line: str) -> RegexPattern:
    """Return a pattern that matches an entry itself, and not what is in a folder that it matches.

    So the last match decides, as in git: ignored folders are not scanned. `GitIgnoreSpec` of pathspec judges whole
    paths instead, and ignores folders that a later pattern, such as `!*/`, includes again.
    """
    from pathspec.pattern import RegexPattern  # noqa: PLC0415 - as above
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415

    regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    return RegexPattern(None if regex is None else re.compile(f"(?:{regex})$"), include)
