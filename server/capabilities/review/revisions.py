"""What git tells of a branch: the commit that it began with, the files that differ, and the skills that were there.

No program that a change brings is run: git runs only those that its configuration names, which no change can bring, and
of these only filters of files, such as that of LFS.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from server.capabilities.evals.tested_skills import git_output, said_by_git
from server.capabilities.evals.workspace import EvalError
from skills_core.diagnostics import one_line, printable
from skills_core.disk.files import Location
from skills_core.disk.sources import SkillKind, real_path
from skills_core.disk.writing import write_file
from skills_core.errors import FileRefusedError, SkillsError
from skills_core.format.instructions import kind_of_file

_DEFAULT_BASES: Final = ("origin/HEAD", "origin/main", "origin/master", "main", "master")

_MAX_BYTES: Final = 60_000_000
# Of the skills that changed, as they were; git's output has a bound a little above.

_MAIN: Final = ":(top,icase,glob)**/skill.md"
_EXECUTABLE: Final = "100755"
_REGULAR: Final = frozenset({"100644", _EXECUTABLE})


class ReviewError(SkillsError):
    """The change cannot be reviewed; the message says what to do."""


class BaseFile(NamedTuple):
    """A file at the base: its path from the top of the repository, its object, and its size in bytes."""

    path: str
    digest: str
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """What differs between the work tree and the commit `base`, which the branch began with.

    `named` is what the user compares with. All paths begin at `top`, with `/`: `places` are the folders under review
    ("" is the whole repository), `differing` are the files that differ, and `listed` those that git tracks, or would if
    they were added. `moved` has the main files of skills that were moved, by their new paths. `paths` are all that the
    base has, and `files` the regular files below `places`. `links` are the new links below `places` to
    folders that are not, and the new submodules: agents may find skills there that nobody has looked at.
    """

    top: Path
    base: str
    named: str
    places: tuple[str, ...]
    differing: frozenset[str]
    listed: frozenset[str]
    moved: Mapping[str, str]
    paths: frozenset[str]
    files: tuple[BaseFile, ...]
    links: tuple[str, ...] = ()

    @property
    def mains(self) -> frozenset[str]:
        """The paths of the files at the base that are skills, or whose folders are."""
        return frozenset(each.path for each in self.files if _is_main(each.path))


def read_branch(paths: Sequence[Path], base: str | None) -> Branch:
    """Compare the work tree with the commit where it left `base`, as far as the folders `paths` go.

    Raises:
        ReviewError: the folders are not in one git repository, or there is no such commit.
    """
    first = next(map(_existing, paths), Path.cwd())
    top = real_path(Path(_told(first, f"{printable(str(first))}: is not in a git repository", "--show-toplevel")))
    named_places = dict.fromkeys(_below(top, path) for path in paths or [top])
    places = tuple(each for each in named_places if not is_below(each, named_places.keys() - {each}))
    named = base or _default_base(top)
    commit = _merge_base(top, named)
    changed = _names(top, "diff", "--name-only", "--no-renames", "-z", commit, "--")
    new = _names(top, "ls-files", "--others", "--exclude-standard", "-z")
    tracked = _names(top, "ls-files", "--cached", "-z")
    entries = _names(top, "ls-tree", "-r", "-l", "-z", "--full-tree", commit)
    present = frozenset(each.partition("\t")[2] for each in entries)
    files = tuple(each for each in _regular(entries) if is_below(each.path, places))
    differing, listed = frozenset({*changed, *new}), frozenset({*new, *tracked})
    _check_places(top, paths, differing)
    links = [each for each in differing if is_below(each, places) and _leads_out(top, each, places)]
    # Of what git tracks, only a submodule is a folder. A repository that nobody has added ends with a slash.
    links += [each for each in {*changed} - present if is_below(each, places) and _is_folder(top / each)]
    return Branch(
        top, commit, named, places, differing, listed, _moved(top, commit), present, files, tuple(sorted(links))
    )


def _check_places(top: Path, paths: Iterable[Path], differing: Collection[str]) -> None:
    """Raise ReviewError if the change has made a link of a folder under review, or of one above it."""
    for path in paths:
        absolute = Path(os.path.normpath(path.absolute()))
        for each in (absolute, *absolute.parents):
            # Links above the repository are not part of the change.
            place = real_path(each.parent) / each.name
            if each.is_symlink() and place.is_relative_to(top) and place.relative_to(top).as_posix() in differing:
                raise ReviewError(
                    f"{printable(str(each))}: is a link since this change, so what was there would go unseen; "
                    "name the folder that it leads to, if you want that one reviewed"
                )


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _leads_out(top: Path, path: str, places: Collection[str]) -> bool:
    """Tell whether a path is a link to a folder that is not below the places."""
    link = top / path
    if not link.is_symlink() or not link.is_dir():
        return False
    target = real_path(link)
    return not target.is_relative_to(top) or not is_below(target.relative_to(top).as_posix(), places)


def is_below(path: str, places: Iterable[str]) -> bool:
    """Tell whether a path lies in one of the folders, or is one of them."""
    return any(not place or path == place or path.startswith(f"{place}/") for place in places)


def write_base(branch: Branch, wanted: Callable[[str], bool], target: Path) -> Path:
    """Write the main files of all skills at the base, and the files that are `wanted`, below `target`; return the top.

    Raises:
        ReviewError: git cannot read them, or they are too large.
    """
    # The name of a folder is checked against that of its skill, so the top keeps its own.
    top = target / branch.top.name
    top.mkdir(parents=True)
    for place in branch.places:
        (top / place).mkdir(parents=True, exist_ok=True)
    files = [each for each in branch.files if _is_main(each.path) or wanted(each.path)]
    if (size := sum(each.size for each in files)) > _MAX_BYTES:
        raise ReviewError(
            f"the skills that changed had {size:,} bytes, more than {_MAX_BYTES:,}; name fewer folders of skills"
        )
    for file, content in zip(files, _contents(branch.top, files), strict=True):
        try:
            write_file(Location(top, file.path), content, 0o755 if file.executable else 0o644)
        except FileRefusedError as error:
            raise ReviewError(f"{one_line(file.path)}: cannot be written: {error.message}") from None
    return top


def _is_main(path: str) -> bool:
    *folders, name = path.split("/")
    return kind_of_file(folders, name) in {SkillKind.FOLDER, SkillKind.DOCUMENT}


def _existing(path: Path) -> Path:
    """Return the folder of a path, or the nearest one above: a branch may have removed it."""
    absolute = path.absolute()
    return next(each for each in (absolute, *absolute.parents) if each.is_dir())


def _below(top: Path, path: Path) -> str:
    place = real_path(path.absolute())
    # A file stands for its folder, as in `validate`; a folder that the branch removed has no kind any more.
    place = place.parent if place.is_file() else place
    if not place.is_relative_to(top):
        raise ReviewError(f"{printable(str(path))}: lies outside the repository {printable(str(top))}")
    relative = place.relative_to(top).as_posix()
    return "" if relative == "." else relative


def _default_base(top: Path) -> str:
    for each in _DEFAULT_BASES:
        if _commit(top, each):
            return each
    tried = ", ".join(_DEFAULT_BASES)
    raise ReviewError(f"there is no branch to compare with (tried {tried}); name one with --base")


def _commit(top: Path, named: str) -> str:
    try:
        found = git_output(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{named}^{{commit}}")
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.decode().strip()


def _merge_base(top: Path, named: str) -> str:
    if not (commit := _commit(top, named)):
        raise ReviewError(
            f"--base {one_line(named)}: git does not know this commit; fetch it first (actions/checkout with "
            "fetch-depth: 0 fetches all branches)"
        )
    try:
        return git_output(top, "merge-base", commit, "HEAD").decode().split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        raise ReviewError(
            f"--base {one_line(named)}: it has no commit in common with HEAD here; fetch the whole history "
            "(`git fetch --unshallow`, or actions/checkout with fetch-depth: 0)"
        ) from None


def _told(folder: Path, wrong: str, *words: str) -> str:
    return _run(folder, wrong, "rev-parse", *words).decode("utf-8", "surrogateescape").rstrip("\n")


def _run(folder: Path, wrong: str, *words: str, given: bytes = b"") -> bytes:
    try:
        return git_output(folder, *words, given=given)
    except EvalError as error:
        raise ReviewError(str(error)) from None
    except FileNotFoundError:
        raise ReviewError("git is not installed, or not in PATH; a review compares what it has") from None
    except (OSError, subprocess.SubprocessError) as error:
        why = said_by_git(error) or type(error).__name__
        raise ReviewError(f"{wrong} ({why})") from None


def _names(top: Path, *words: str) -> list[str]:
    found = _run(top, "git cannot compare the branch with its base", *words)
    return [os.fsdecode(each) for each in found.split(b"\0") if each]


def _moved(top: Path, commit: str) -> dict[str, str]:
    words = ("diff", "--name-status", "--diff-filter=R", "--find-renames=50%", "-z", commit, "--", _MAIN)
    # Each entry is a letter with the likeness, the old path and the new path.
    found = _names(top, *words)
    return dict(zip(found[2::3], found[1::3], strict=True))


def _regular(entries: Iterable[str]) -> Iterator[BaseFile]:
    """Yield the regular files among the entries of a tree; a server follows neither links nor submodules."""
    for line in entries:
        about, _, path = line.partition("\t")
        mode, _, digest, size = about.split()
        if mode in _REGULAR and ".." not in PurePosixPath(path).parts:
            yield BaseFile(path, digest, int(size), mode == _EXECUTABLE)


def _contents(top: Path, files: Sequence[BaseFile]) -> Iterator[bytes]:
    asked = "".join(f"{each.digest}\n" for each in files).encode()
    output, place = _run(top, "git cannot read the skills at the base", "cat-file", "--batch", given=asked), 0
    for each in files:
        # A line with the digest, the kind and the size precedes the bytes, and a line end follows them.
        place = output.index(b"\n", place) + 1
        yield output[place : place + each.size]
        place += each.size + 1
