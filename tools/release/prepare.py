"""What `make release` does before (`check`) and after (`finish`) the distributions are made."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from tools.release.bundle import MANIFEST, bundle_path
from tools.release.distributions import DIST, REPOSITORY, distributions, version_of_package
from tools.release.registry import faults_of, is_placeholder, read, with_bundle
from tools.release.sessions import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVER: Final = REPOSITORY / "release/server.json"
_CHART: Final = REPOSITORY / "deploy/helm/skillserve/Chart.yaml"


def versions(repository: Path = REPOSITORY) -> Iterator[tuple[str, str]]:
    """Yield each file that repeats the version, and what it says."""
    for path in (SERVER, MANIFEST):
        name = path.relative_to(REPOSITORY)
        yield name.as_posix(), json.loads((repository / name).read_text(encoding="utf-8"))["version"]
    name = _CHART.relative_to(REPOSITORY)
    for key, value in re.findall(
        r'^(version|appVersion): "?([^"\n]+)"?$', (repository / name).read_text("utf-8"), re.MULTILINE
    ):
        yield f"{name.as_posix()} ({key})", value


def faults(version: str, repository: Path = REPOSITORY) -> Iterator[str]:
    """Yield what has to be done before this version can be released."""
    for name, said in versions(repository):
        if said != version:
            yield f"{name} says {said}; server/__init__.py says {version}"
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[?([^\]\s]+)", changelog, re.MULTILINE)
    if headings[:1] != [version]:
        yield f"CHANGELOG.md begins with {' '.join(headings[:1]) or 'no entry'}; write the entry of {version}"
    server = read(repository / "release/server.json")
    yield from (f"release/server.json: {fault}" for fault in faults_of(server))
    if f"<!-- mcp-name: {server['name']} -->" not in (repository / "README.md").read_text(encoding="utf-8"):
        yield f"README.md: write <!-- mcp-name: {server['name']} -->, the name in release/server.json"
    if changed := _git(repository, "status", "--porcelain"):
        yield f"the work tree has changes that are not committed:\n{changed}"
    if _git(repository, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} exists; write the next version into server/__init__.py"


def _git(repository: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=repository, capture_output=True, text=True, check=True)
    return done.stdout.rstrip()


def finish(version: str) -> str:
    """Write `dist/server.json` if the files name their owner; return what is left to do by hand."""
    wheel, sdist = distributions()
    bundle = bundle_path()
    server = read(SERVER)
    files = " ".join(f"dist/{each.name}" for each in (wheel, sdist, bundle))
    lines = [
        f"skillserve {version} is ready in dist/. What is left to do by hand:",
        f"  git tag v{version} && git push origin v{version}",
        f"  create the release v{version} of the repository with the files {files}",
        f"  release/.venv/bin/twine upload dist/{wheel.name} dist/{sdist.name}   # if the name is yours there",
    ]
    if is_placeholder(server):
        lines.append(
            f"  MCP registry: nothing to publish yet. {server['name']} is a placeholder; name your namespace and your\n"
            "  repository in release/server.json and README.md, as release/README.md says, and run make release again"
        )
    else:
        target = DIST / "server.json"
        published = with_bundle(server, bundle)
        if found := list(faults_of(published)):
            raise ReleaseError("; ".join(found))
        target.write_text(json.dumps(published, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        lines.append("  after that: cd dist && mcp-publisher login github && mcp-publisher publish")
    lines.append("  send release/ext-skills.md to the list of implementations")
    return "\n".join(lines)


def main(step: str) -> int:
    """Check, or finish; return the exit code."""
    version = version_of_package()
    try:
        if step == "finish":
            print(finish(version))
            return 0
        found = list(faults(version))
    except ReleaseError as error:
        found = [str(error)]
    for fault in found:
        print(f"release: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
