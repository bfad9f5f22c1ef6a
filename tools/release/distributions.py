"""Install the wheel and the sdist of `dist/` into bare environments, and serve from them.

The environments hold what the distribution asks for and nothing else, and their folder is not this repository, so
that a file which is missing from a distribution is missing here too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.release.sessions import ReleaseError, ask_over_http, ask_over_stdio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

REPOSITORY: Final = Path(__file__).parents[2]
DIST: Final = REPOSITORY / "dist"
TOOLS: Final = {"activate_skill", "read_skill_file", "find_skills"}
_PACKAGES: Final = ("server", "skills_core")
_SKILL: Final = (
    "---\nname: tide-tables\ndescription: Read tide tables. Use when a harbour is named.\n---\n\nRead the table.\n"
)
_PYPROJECT: Final = ("pyproject.toml", "PKG-INFO")


def version_of_package() -> str:
    """Return the version that `server/__init__.py` states, the one place of it."""
    text = (REPOSITORY / "server/__init__.py").read_text(encoding="utf-8")
    if found := re.search(r'^__version__ = "([^"]+)"$', text, re.MULTILINE):
        return found[1]
    raise ReleaseError("server/__init__.py states no __version__")


def distributions(folder: Path = DIST) -> tuple[Path, Path]:
    """Return the wheel and the sdist of this version.

    Raises:
        ReleaseError: one of them is missing, or others are beside them.
    """
    version = version_of_package()
    wheel = folder / f"skillserve-{version}-py3-none-any.whl"
    sdist = folder / f"skillserve-{version}.tar.gz"
    found = {*folder.glob("*.whl"), *folder.glob("*.tar.gz")}
    if found != {wheel, sdist}:
        names = ", ".join(sorted(each.name for each in found)) or "nothing"
        raise ReleaseError(f"{folder} has {names}; expected {wheel.name} and {sdist.name}: run `make dist`")
    return wheel, sdist


def tracked_files() -> set[str]:
    """Return the files of the two packages that git knows."""
    command = ["git", "ls-files", "-z", "--", *_PACKAGES]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, check=True)
    return {name for name in done.stdout.decode().split("\0") if name}


def check_contents(wheel: Path, sdist: Path, expected: set[str]) -> None:
    """Check that both distributions have each file of the packages, data included, and no other.

    Raises:
        ReleaseError: files are missing or superfluous.
    """
    with zipfile.ZipFile(wheel) as archive:
        _compare(wheel, {name for name in archive.namelist() if name.partition("/")[0] in _PACKAGES}, expected)
        strangers = {name.partition("/")[0] for name in archive.namelist()} - {*_PACKAGES}
    if [name for name in strangers if not name.endswith(".dist-info")]:
        raise ReleaseError(f"{wheel.name} has other names at its top: {', '.join(sorted(strangers))}")
    with tarfile.open(sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}
    _compare(sdist, {name for name in names if name.partition("/")[0] in _PACKAGES}, expected)
    tops = {name.partition("/")[0] for name in names}
    wanted = {*_PACKAGES, *_PYPROJECT, "sample_skills", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"}
    if tops != wanted:
        raise ReleaseError(f"{sdist.name}: expected {sorted(wanted)} at its top, found {sorted(tops)}")


def _compare(archive: Path, found: set[str], expected: set[str]) -> None:
    if missing := sorted(expected - found):
        raise ReleaseError(f"{archive.name} lacks {', '.join(missing[:10])}")
    if more := sorted(found - expected):
        raise ReleaseError(f"{archive.name} has what the repository has not: {', '.join(more[:10])}")


def check_in_bare_environment(distribution: Path, folder: Path) -> None:
    """Install a distribution with what it asks for, serve with it over both transports, and use its data files.

    Raises:
        ReleaseError: something does not work.
    """
    folder.mkdir()
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    pip = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--constraint", str(REPOSITORY / "constraints.txt"), str(distribution)], check=True)
    skillserve = str(programs / "skillserve")
    skills = folder / "skills"
    (skills / "tide-tables").mkdir(parents=True)
    (skills / "tide-tables/SKILL.md").write_text(_SKILL, encoding="utf-8")
    environment = bare_environment(folder)
    expected = f"skillserve {version_of_package()}"
    if (said := _output([skillserve, "--version"], environment, folder).strip()) != expected:
        raise ReleaseError(f"{distribution.name}: expected {expected}, found {said}")
    serve = [skillserve, "serve", str(skills)]
    for ask in (ask_over_stdio, ask_over_http):
        answered = ask(serve, environment, folder)
        if not answered.tools >= TOOLS or "tide-tables" not in answered.skills:
            raise ReleaseError(f"{distribution.name}: the server answered {answered}")
    _check_data(skillserve, skills, environment, folder)


def _check_data(skillserve: str, skills: Path, environment: Mapping[str, str], folder: Path) -> None:
    """Run what reads the data files: facts about clients, presets of tools, templates of the report, bundled skills.

    Raises:
        ReleaseError: a command failed, or said something else.
    """
    (skills / "tide-tables/evals").mkdir()
    case = {"id": 1, "prompt": "hi", "assertions": [{"text": "it says hi", "check": "true"}]}
    (skills / "tide-tables/evals/evals.json").write_text(json.dumps({"evals": [case]}), encoding="utf-8")
    (folder / "work").mkdir()
    for words, expected in (
        (["visibility", str(skills)], "Claude Code"),
        (["connect", "cursor", str(skills), "--print"], "mcpServers"),
        (["activate", "tide-tables", str(skills), "--client", "codex"], "Read the table."),
        (["eval", str(skills / "tide-tables"), "--agent-command", "echo hi"], "tide-tables"),
        (["report", str(skills / "tide-tables-workspace"), "--output", "report.html"], "report.html"),
        (["status"], "writing-skills"),
    ):
        said = _output([skillserve, *words], environment, folder / "work")
        if expected not in said:
            raise ReleaseError(f"skillserve {' '.join(words)}: expected {expected!r} in {said!r}")
    page = (folder / "work/report.html").read_text(encoding="utf-8")
    if "<style" not in page or "tide-tables" not in page:
        raise ReleaseError("the report lacks its style or its skill")


def bare_environment(folder: Path) -> dict[str, str]:
    """Return an environment without this user's settings and without this repository."""
    kept = ("PATH", "SYSTEMROOT", "UV_", "PIP_", "SSL_CERT_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    passed = {name: value for name, value in os.environ.items() if name.upper().startswith(kept)}
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {**passed, "HOME": str(home), "USERPROFILE": str(home), "NO_COLOR": "1", "COLUMNS": "200"}


def _output(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(command)} exited with {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


def main() -> int:
    """Check both distributions; return the exit code."""
    try:
        wheel, sdist = distributions()
        check_contents(wheel, sdist, tracked_files())
        with tempfile.TemporaryDirectory(prefix="skillserve-dist-") as scratch:
            for each in (wheel, sdist):
                check_in_bare_environment(each, Path(scratch) / each.suffix.removeprefix("."))
                print(f"{each.name}: installed in a bare environment, serves over stdio and HTTP")
    except (ReleaseError, subprocess.CalledProcessError) as error:
        print(f"dist-check: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
