"""What a release consists of agrees with itself, and names nothing that a stranger could register."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools.release import prepare
from tools.release.distributions import check_contents, version_of_package
from tools.release.registry import faults_of, is_placeholder, read, with_bundle
from tools.release.sessions import ReleaseError

REPOSITORY = Path(__file__).parents[2]
VERSION = version_of_package()
OWNED = {
    "name": "io.github.owner/skillserve",
    "repository": {"url": "https://github.com/owner/skillserve", "source": "github"},
}


def test_every_file_says_the_version_of_the_package() -> None:
    assert dict(prepare.versions()) == {
        "release/server.json": VERSION,
        "release/mcpb/manifest.json": VERSION,
        "deploy/helm/skillserve/Chart.yaml (version)": VERSION,
        "deploy/helm/skillserve/Chart.yaml (appVersion)": VERSION,
    }


SOURCE = ("server", "skills_core", "docs", "deploy", "release", "conformance", "bench", ".ci", ".github")
TEXTS = [
    path
    for place in (*SOURCE, *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "Dockerfile", "compose.yaml"))
    for path in ([REPOSITORY / place] if (REPOSITORY / place).is_file() else sorted((REPOSITORY / place).rglob("*")))
    if path.suffix in {"", ".md", ".py", ".json", ".toml", ".yaml", ".yml", ".html", ".txt", ".mjs"}
    and path.is_file()
    and not {"node_modules", ".venv", "__pycache__"} & {*path.parts}
]
NAME = r"['\"]?skillserve(?![\w./@-]|\[[\w,]*\] @ )"
CLAIMABLE = re.compile(
    # The package by its name, with or without extras or a version, where a command takes it from an index.
    r"\b(?:pip3?|pipx|uv|uv tool|uv pip|poetry|pdm|conda|npm)\s+(?:install|add|inject|upgrade)\b"
    rf"[^|;&`\n]*[^\S\n]{NAME}"
    rf"|\b(?:uvx|pipx run|uv tool run|npx|bunx)\s+(?![^|;&`\n]*--(?:from|spec)\b)[^|;&`\n]*?{NAME}"
    # An extra of it without the folder, file or address to take it from; braces and brackets of code may follow.
    r"|(?<![\w/.])skillserve\[[\w,]+\](?! @ )"
)


def test_no_text_tells_to_install_a_package_by_a_name_that_a_stranger_could_register() -> None:
    assert len(TEXTS) > 500
    found = {
        f"{path.relative_to(REPOSITORY)}: {match[0]}"
        for path in TEXTS
        for match in CLAIMABLE.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "text",
    [
        "pip install skillserve",
        "pip install 'skillserve[run]'",
        "python -m pip install --upgrade skillserve==1.0",
        "uv tool install skillserve",
        "uv pip install skillserve>=1",
        "pipx install skillserve",
        "uvx skillserve serve",
        "uvx --python 3.12 'skillserve[run]' serve",
        "npx -y skillserve",
        "install it as skillserve[team]",
    ],
)
def test_such_a_text_is_found(text: str) -> None:
    assert CLAIMABLE.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "uvx --from . skillserve serve DIR",
        "uv tool install '/path/to/skillserve[run]'",
        "pip install ./dist/skillserve-0.1.0-py3-none-any.whl",
        "pip install 'skillserve[run] @ git+https://host.example/skillserve'",
        "uv run --directory /x skillserve serve",
        "pip install --constraint constraints.txt --editable '.[dev]'",
    ],
)
def test_a_command_that_says_where_the_package_comes_from_is_not(text: str) -> None:
    assert not CLAIMABLE.search(text)


def test_the_readme_has_the_name_at_the_registry_in_one_comment() -> None:
    name = read(REPOSITORY / "release/server.json")["name"]
    assert re.findall("<!-- mcp-name: .* -->", (REPOSITORY / "README.md").read_text(encoding="utf-8")) == [
        f"<!-- mcp-name: {name} -->"
    ]


def test_the_registry_would_accept_the_file_that_is_kept_and_the_one_that_is_released(tmp_path: Path) -> None:
    kept = read(prepare.SERVER)
    assert list(faults_of(kept)) == []
    bundle = tmp_path / "skillserve.mcpb"
    bundle.write_bytes(b"a bundle")
    released = with_bundle({**kept, **OWNED}, bundle)
    assert list(faults_of(released)) == []
    (package,) = released["packages"]
    assert package["identifier"] == (
        f"https://github.com/owner/skillserve/releases/download/v{VERSION}/skillserve.mcpb"
    )
    assert package["fileSha256"] == hashlib.sha256(b"a bundle").hexdigest()


PACKAGE = {
    "registryType": "mcpb",
    "identifier": "https://github.com/owner/skillserve/releases/download/v1/skillserve.mcpb",
    "fileSha256": "0" * 64,
    "transport": {"type": "stdio"},
}


@pytest.mark.parametrize(
    "change",
    [
        {"$schema": "https://static.modelcontextprotocol.io/schemas/2025-09-29/server.schema.json"},
        {"name": "skillserve"},
        {"name": "a/b/c"},
        {"description": ""},
        {"description": "x" * 101},
        {"version": "latest"},
        {"version": "^1.0.0"},
        {"version": "1.x"},
        {"repository": {"url": "https://github.com/owner/skillserve"}},
        {"repository": "https://github.com/owner/skillserve"},
        {"website_url": "https://host.example"},
        {"packages": [{**PACKAGE, "registryType": "pypi", "identifier": "skillserve"}]},
        {"packages": [{**PACKAGE, "fileSha256": ""}]},
        {"packages": [{**PACKAGE, "fileSha256": "A" * 64}]},
        {"packages": [{**PACKAGE, "identifier": "https://host.example/skillserve.mcpb"}]},
        {"packages": [{**PACKAGE, "transport": {"type": "http"}}]},
        {"packages": [{**PACKAGE, "file_sha256": "0" * 64}]},
    ],
    ids=str,
)
def test_what_the_registry_refuses_is_a_fault(change: dict[str, Any]) -> None:
    assert list(faults_of({**read(prepare.SERVER), "packages": [PACKAGE]})) == []
    assert list(faults_of({**read(prepare.SERVER), **change})) != []


def test_a_name_below_a_reserved_domain_is_not_published() -> None:
    kept = read(prepare.SERVER)
    assert is_placeholder(kept)
    assert is_placeholder({**kept, "name": OWNED["name"]})
    assert not is_placeholder({**kept, **OWNED})


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that can be released."""
    folder = tmp_path / "repository"
    for name in ("release/server.json", "release/mcpb/manifest.json", "deploy/helm/skillserve/Chart.yaml", "README.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, folder / name)
    (folder / "CHANGELOG.md").write_text(f"# Changelog\n\n## {VERSION}\n\nThe first.\n", encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    commit(folder)
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "commit", "--quiet", "--all", "--message", "x")


def test_a_clean_commit_with_an_entry_can_be_released(repository: Path) -> None:
    assert list(prepare.faults(VERSION, repository)) == []


def test_a_work_tree_with_changes_cannot_be_released(repository: Path) -> None:
    (repository / "new.txt").touch()
    (fault,) = prepare.faults(VERSION, repository)
    assert "new.txt" in fault


def test_a_version_that_has_a_tag_cannot_be_released(repository: Path) -> None:
    git(repository, "tag", f"v{VERSION}")
    (fault,) = prepare.faults(VERSION, repository)
    assert "the tag" in fault


def test_a_version_that_a_file_does_not_say_cannot_be_released(repository: Path) -> None:
    found = list(prepare.faults("7.0.0", repository))
    assert len(found) == 5
    assert "CHANGELOG.md" in found[-1]


@pytest.mark.parametrize("text", ["# Changelog\n", f"# Changelog\n\n## Unreleased\n\nx\n\n## {VERSION}\n"])
def test_a_changelog_that_begins_with_another_entry_stops_the_release(text: str, repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(text, encoding="utf-8")
    commit(repository)
    (fault,) = prepare.faults(VERSION, repository)
    assert "CHANGELOG.md" in fault


def test_a_readme_with_another_name_stops_the_release(repository: Path) -> None:
    (repository / "README.md").write_text("<!-- mcp-name: io.github.owner/other -->\n", encoding="utf-8")
    commit(repository)
    (fault,) = prepare.faults(VERSION, repository)
    assert "mcp-name" in fault


FILES = {"server/__init__.py", "server/data.json", "skills_core/__init__.py"}
TOPS = {"pyproject.toml", "PKG-INFO", "sample_skills/a", "README.md", "CHANGELOG.md", "LICENSE", ".gitignore"}


def archives(folder: Path, in_wheel: set[str], in_sdist: set[str]) -> tuple[Path, Path]:
    wheel, sdist = folder / "s.whl", folder / "s.tar.gz"
    with zipfile.ZipFile(wheel, "w") as made:
        for name in in_wheel:
            made.writestr(name, "")
    with tarfile.open(sdist, "w:gz") as archive:
        for name in in_sdist:
            archive.addfile(tarfile.TarInfo(f"skillserve-1/{name}"))
    return wheel, sdist


def test_distributions_with_each_file_are_accepted(tmp_path: Path) -> None:
    check_contents(*archives(tmp_path, FILES | {"skillserve-1.dist-info/METADATA"}, FILES | TOPS), FILES)


@pytest.mark.parametrize(
    ("in_wheel", "in_sdist"),
    [
        (FILES - {"server/data.json"}, FILES | TOPS),
        (FILES, (FILES - {"server/data.json"}) | TOPS),
        (FILES | {"server/left_over.py"}, FILES | TOPS),
        (FILES | {"tests/test_it.py"}, FILES | TOPS),
        (FILES, FILES | TOPS | {"tests/server/conftest.py"}),
        (FILES, FILES | (TOPS - {"LICENSE"})),
    ],
    ids=["wheel lacks data", "sdist lacks data", "left over", "other package", "tests", "no licence"],
)
def test_a_distribution_that_lacks_a_file_or_has_another_is_refused(
    in_wheel: set[str], in_sdist: set[str], tmp_path: Path
) -> None:
    with pytest.raises(ReleaseError):
        check_contents(*archives(tmp_path, in_wheel, in_sdist), FILES)


def test_the_bundle_asks_for_folders_and_hands_each_to_the_server() -> None:
    manifest = json.loads((REPOSITORY / "release/mcpb/manifest.json").read_text(encoding="utf-8"))
    assert manifest["manifest_version"] == "0.4"
    assert manifest["server"]["type"] == "uv"
    assert (REPOSITORY / manifest["server"]["entry_point"]).is_file()
    # A list is one argument for each folder only where it is the whole argument.
    assert manifest["server"]["mcp_config"]["args"][-1] == "${user_config.skills_folders}"
    folders = manifest["user_config"]["skills_folders"]
    assert (folders["type"], folders["multiple"], folders["required"]) == ("directory", True, True)


@pytest.mark.skipif(sys.platform == "win32" or not shutil.which("make"), reason="needs make and a POSIX shell")
@pytest.mark.parametrize(
    ("given", "served"),
    [
        ("~", "{home}"),
        ("~/my skills", "{home}/my skills"),
        ("~someone/skills", "~someone/skills"),
        ("a  b'c\"d", "a  b'c\"d"),
        (None, "sample_skills"),
    ],
)
def test_make_serve_serves_the_folder_whichever_shell_wrote_it(given: str | None, served: str, tmp_path: Path) -> None:
    program = tmp_path / "environment/bin/skillserve"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    (tmp_path / "environment/.serving").touch()
    words = [] if given is None else [f"DIR={given}"]
    done = subprocess.run(
        ["make", "-C", REPOSITORY, "--no-print-directory", "serve", f"VENV={tmp_path}/environment", "PORT=9", *words],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "serve",
        served.format(home=tmp_path / "home"),
        "--transport",
        "http",
        "--port",
        "9",
    ]
