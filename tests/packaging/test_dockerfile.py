"""An image built from the Dockerfile serves skills, and the container files follow the rules for safe images.

No container engine is needed. `build` executes the Dockerfile's steps in a scratch folder that represents the image's
root: absolute paths are moved below it, and this machine's Python replaces the base image. The result is started with
the image's own command, by an unprivileged user, in a read-only tree.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shlex
import shutil
import signal
import socket
import stat
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import Any

import anyio
import httpx2
import pytest
import yaml
from mcp import Client

from server.config.settings.model import Settings

# All tests share one image.
pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
SAMPLES = REPOSITORY / "sample_skills"
SERVICE: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_bytes())["services"]["skillserve"]

# --- Reading the Dockerfile -------------------------------------------------------------------------------------

BUILT = {"RUN", "COPY", "ENV", "WORKDIR"}
DECLARED = {"USER", "EXPOSE", "VOLUME", "LABEL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
# The build skips these; tests check them.


@dataclass(frozen=True)
class Step:
    """One instruction: its flags without dashes, and the rest of its text."""

    keyword: str
    flags: dict[str, str]
    text: str

    @property
    def words(self) -> list[str]:
        """The words of an exec form (a JSON array), or of a shell command."""
        words: list[str] = json.loads(self.text) if self.text.startswith("[") else shlex.split(self.text)
        return words


@dataclass(frozen=True)
class Stage:
    base: str
    name: str
    steps: tuple[Step, ...]

    def last(self, keyword: str) -> Step:
        return [step for step in self.steps if step.keyword == keyword][-1]


def parse(text: str) -> list[Stage]:
    """Split a Dockerfile into stages; reject instructions and forms that `build` does not support."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        keyword, rest = line.strip().split(maxsplit=1)
        assert keyword in BUILT | DECLARED | {"FROM"}, f"{keyword} is not supported here"
        assert "<<" not in rest, "heredocs are not supported here"
        flags = {}
        while flag := re.match(r"--([\w-]+)=(\S+)\s+", rest):
            flags[flag[1]] = flag[2]
            rest = rest[flag.end() :]
        if keyword == "FROM":
            base, name = re.fullmatch(r"(\S+)(?: AS (\S+))?", rest).groups()  # type: ignore[union-attr]
            stages.append(Stage(base, name or "", ()))
        else:
            stages[-1] = replace(stages[-1], steps=(*stages[-1].steps, Step(keyword, flags, rest)))
    return stages


STAGES = parse((REPOSITORY / "Dockerfile").read_text(encoding="utf-8"))
FINAL = STAGES[-1]
SERVED = FINAL.last("CMD").words[1]


def ignored(path: str) -> bool:
    """Return whether .dockerignore excludes `path`: the last pattern that matches it or a parent decides."""
    candidates = [path, *map(str, PurePosixPath(path).parents)][:-1]
    verdict = False
    for line in (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern = re.escape(line.removeprefix("!")).replace(r"\[", "[").replace(r"\]", "]")
            pattern = pattern.replace(r"\*\*/", "(?:.*/)?").replace(r"\*", "[^/]*")
            if any(re.fullmatch(pattern, candidate) for candidate in candidates):
                verdict = not line.startswith("!")
    return verdict


# --- Building the image -----------------------------------------------------------------------------------------


@functools.cache
def this_machine() -> tuple[str, dict[str, Any]]:
    """Return a Python that replaces that of the base image, and the arguments to start it as the image's user.

    Only root can switch to that user, and stays root if that user can use no Python or no temporary folder.
    """
    own: str = getattr(sys, "_base_executable", sys.executable)
    if os.geteuid() == 0:
        user, group = map(int, FINAL.last("USER").text.split(":"))
        other: dict[str, Any] = {"user": user, "group": group, "extra_groups": []}
        usable = "import ensurepip, os, sys; os.listdir(sys.argv[1]); sys.exit(sys.version_info < (3, 11))"
        for python in (own, shutil.which("python3", path="/usr/local/bin:/usr/bin")):
            with suppress(OSError, subprocess.CalledProcessError):
                command = [python or "", "-c", usable, tempfile.gettempdir()]
                subprocess.run(command, cwd="/", check=True, capture_output=True, **other)
                return str(python), other
    return own, {}


@dataclass
class Image:
    """A stage during and after its build."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"

    def move(self, text: str) -> str:
        """Move the absolute paths in `text` below the root; keep URLs, relative paths and devices."""
        return re.sub(r"(?<![\w./*$})])/(?=[a-z])(?!dev/)", f"{self.root}/", text)

    def path(self, text: str) -> Path:
        return self.root / self.folder.lstrip("/") / self.move(text)


def build(scratch: Path) -> Image:
    """Build all stages. Each is built at the same path, as each is built at / in an image, and then moved away."""
    finished: dict[str, Image] = {}
    for stage in STAGES[:-1]:
        built = _build_stage(stage, scratch / "root", finished)
        finished[stage.name] = replace(built, root=built.root.rename(scratch / stage.name))
    return _build_stage(FINAL, scratch / "root", finished)


def _build_stage(stage: Stage, root: Path, finished: dict[str, Image]) -> Image:
    image = _from(stage.base, root, finished)
    for step in stage.steps:
        match step.keyword:
            case "RUN":
                _run(step, image)
            case "COPY":
                _copy(step, image, finished)
            case "ENV":
                text = string.Template(image.move(step.text)).substitute(image.environment)
                image.environment |= dict(word.split("=", 1) for word in shlex.split(text))
            case "WORKDIR":
                image.folder = step.text
                image.path(".").mkdir(parents=True, exist_ok=True)
    return image


def _from(base: str, root: Path, finished: dict[str, Image]) -> Image:
    if base in finished:
        shutil.copytree(finished[base].root, root, symlinks=True)
        return replace(finished[base], root=root, environment=dict(finished[base].environment))
    programs = root / "usr/local/bin"
    programs.mkdir(parents=True)
    # A script, not a link: Python derives the path of its library from its own path.
    python = programs / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(this_machine()[0])} "$@"\n')
    python.chmod(0o755)
    return Image(root, {"PATH": f"{programs}:/usr/bin:/bin"})


def _run(step: Step, image: Image) -> None:
    """Run a command like an engine. It inherits this machine's environment, which pip needs to reach an index."""
    assert not step.flags, f"RUN {step.flags} is not supported here"
    here = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    shell, environment = ["/bin/sh", "-c", image.move(step.text)], {**here, **image.environment}
    done = subprocess.run(shell, cwd=image.path("."), env=environment, umask=0o022, capture_output=True, check=False)
    assert done.returncode == 0, f"RUN {step.text}\n{(done.stdout + done.stderr).decode(errors='replace')}"


def _copy(step: Step, image: Image, finished: dict[str, Image]) -> None:
    assert set(step.flags) <= {"from"}, f"COPY {step.flags} is not supported here"
    *sources, target = step.words
    into = target.endswith("/") or image.path(target).is_dir()
    for source in sources:
        if "from" in step.flags:
            shutil.copytree(finished[step.flags["from"]].root / source.lstrip("/"), image.path(target), symlinks=True)
            continue
        origin = REPOSITORY / source
        for file in [origin] if origin.is_file() else sorted(origin.rglob("*")):
            if file.is_file() and not ignored(file.relative_to(REPOSITORY).as_posix()):
                # COPY copies the content of a folder to the target, and a file into a target that is a folder.
                inner = file.relative_to(origin) if file != origin else Path(file.name if into else "")
                copy = image.path(target) / inner
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)


# --- Running the image ------------------------------------------------------------------------------------------


@contextmanager
def sealed(root: Path) -> Iterator[None]:
    """Make the whole tree read-only, and check that it is unchanged afterwards."""
    modes = {path: path.lstat().st_mode for path in (root, *root.rglob("*")) if not path.is_symlink()}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222)

    def contents() -> set[tuple[str, int, int]]:
        return {(str(path), path.lstat().st_size, path.lstat().st_mtime_ns) for path in (root, *root.rglob("*"))}

    before = contents()
    try:
        yield
        assert contents() ^ before == set()
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def mounted(image: Image, skills: Path | None) -> Iterator[None]:
    """Copy `skills` into the folder that the image serves."""
    target = image.root / SERVED.lstrip("/")
    assert list(target.iterdir()) == []
    if skills:
        shutil.copytree(skills, target, dirs_exist_ok=True)
    try:
        yield
    finally:
        shutil.rmtree(target)
        target.mkdir()


@contextmanager
def state_volume() -> Iterator[str]:
    """Make a folder for the state that everyone can write to, like the volume that an engine makes of the image's."""
    with tempfile.TemporaryDirectory() as volume:
        Path(volume).chmod(0o1777)
        yield volume


@contextmanager
def container(image: Image, skills: Path | None, **settings: str) -> Iterator[str]:
    """Start the image like an engine, yield the server's address when it is healthy, and stop it.

    The container has a state volume of its own, unless `settings` name another.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [image.move(word) for word in FINAL.last("ENTRYPOINT").words + FINAL.last("CMD").words]
    with state_volume() as state, mounted(image, skills), sealed(image.root), tempfile.TemporaryFile() as log:
        given = {"HOME": str(image.root), "SKILLSERVE_PORT": str(port), "XDG_STATE_HOME": state, **settings}
        options: dict[str, Any] = {"env": image.environment | given, "cwd": image.path("."), **this_machine()[1]}
        with subprocess.Popen(words, **options, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process:
            try:
                _until_healthy(process, image, options)
                yield f"http://127.0.0.1:{port}"
                process.terminate()
                # An engine kills a container after ten seconds.
                assert process.wait(10) in {0, -signal.SIGTERM}
            except BaseException as error:
                process.kill()
                log.seek(0)
                error.add_note(log.read().decode(errors="replace")[-4000:])
                raise


def _until_healthy(process: subprocess.Popen[bytes], image: Image, options: dict[str, Any]) -> None:
    words = [image.move(word) for word in json.loads(FINAL.last("HEALTHCHECK").text.removeprefix("CMD "))]
    deadline = time.monotonic() + 20
    while (check := subprocess.run(words, **options, capture_output=True, check=False)).returncode:
        assert process.poll() is None, "the server ended"
        assert time.monotonic() < deadline, check.stderr.decode()


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    if os.name == "nt":
        pytest.skip("the steps of a Dockerfile need a POSIX shell")
    if os.environ.get("CI") != "true":
        pytest.skip("the build of the image takes a while and needs a package index: .ci/run has both")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder).resolve()
        # The image's user must be able to enter; pytest's folders are closed to other users.
        scratch.chmod(0o755)
        yield build(scratch)


async def test_the_image_serves_mounted_skills_to_a_client_and_stops_at_sigterm(image: Image) -> None:
    with container(image, SAMPLES) as address, anyio.fail_after(20):
        async with Client(f"{address}/mcp") as client:
            assert "activate_skill" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("activate_skill", {"name": "release-notes"})
    assert not result.is_error
    assert result.content[0].text.startswith('<skill_content name="release-notes"')  # type: ignore[union-attr]


def test_a_container_without_a_volume_is_healthy_and_has_no_skills(image: Image) -> None:
    with container(image, None) as address, httpx2.Client(trust_env=False) as client:
        assert client.get(f"{address}/health").json() == {"status": "ok", "skills": 0}


def test_users_log_in_with_tokens_that_are_made_in_the_container(image: Image) -> None:
    assert stat.S_IMODE((image.root / "state").stat().st_mode) == 0o1777
    with state_volume() as volume:
        settings = {"XDG_STATE_HOME": volume, "SKILLSERVE_LOGIN_TOKENS": "true"}
        made = subprocess.run(
            [image.move("/opt/skillserve/bin/skillserve"), "token", "add", "anna"],
            env={**image.environment, "HOME": str(image.root), **settings},
            cwd=image.path("."),
            capture_output=True,
            check=True,
            **this_machine()[1],
        )
        (token,) = re.findall(r"^\S{20,}$", made.stdout.decode(), re.MULTILINE)
        with container(image, SAMPLES, **settings) as address, httpx2.Client(trust_env=False) as client:
            answers = {
                header: client.get(f"{address}/mcp", headers={"Authorization": header}).status_code
                for header in (f"Bearer {token}", "Bearer wrong")
            }
    assert answers[f"Bearer {token}"] != 401
    assert answers["Bearer wrong"] == 401


def test_the_compose_service_refuses_a_web_page_that_points_its_name_at_this_machine(image: Image) -> None:
    settings = {name: re.sub(r"\$\{\w+:-(.*)\}", r"\1", value) for name, value in SERVICE["environment"].items()}
    with container(image, SAMPLES, **settings) as address, httpx2.Client(trust_env=False) as client:
        for host, refused in {"rebound.example": True, "localhost:8000": False}.items():
            assert (client.get(f"{address}/mcp", headers={"Host": host}).status_code == 421) is refused


def test_the_image_contains_only_pinned_packages_and_no_installer(image: Image) -> None:
    (library,) = (image.root / "opt/skillserve/lib").glob("python*/site-packages")
    installed = {f"{found.name}=={found.version}".lower() for found in distributions(path=[str(library)])}
    pinned = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    assert [found for found in installed if not found.startswith("skillserve==") and found not in pinned] == []
    names = {found.split("==")[0] for found in installed}
    assert not {"pip", "setuptools", "hatchling", "pytest"} & names
    assert {"dbos", "dulwich", "prometheus_client", "psycopg", "redis"} <= names


def test_every_module_in_the_image_has_its_bytecode(image: Image) -> None:
    modules = list((image.root / "opt/skillserve/lib").rglob("*.py"))
    assert len(modules) > 1000
    assert [path for path in modules if not list((path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"))] == []


# --- Rules of the text ------------------------------------------------------------------------------------------


def test_the_user_and_its_group_are_numbers_and_not_root() -> None:
    assert [int(number) > 0 for number in FINAL.last("USER").text.split(":")] == [True, True]


def test_every_stage_is_based_on_one_versioned_slim_python() -> None:
    (base,) = {stage.base for stage in STAGES} - {stage.name for stage in STAGES}
    assert re.fullmatch(r"python:3\.\d+-slim\S*", base)


@pytest.mark.parametrize("file", ["Dockerfile", "compose.yaml"])
def test_no_image_has_the_tag_latest(file: str) -> None:
    assert "latest" not in (REPOSITORY / file).read_text(encoding="utf-8")


def test_neither_the_server_nor_its_health_check_needs_a_shell() -> None:
    forms = [FINAL.last("ENTRYPOINT").text, FINAL.last("CMD").text, FINAL.last("HEALTHCHECK").text.removeprefix("CMD ")]
    assert all(isinstance(word, str) for form in forms for word in json.loads(form))


def test_the_port_is_the_same_in_settings_image_health_check_and_compose() -> None:
    port = str(Settings().http.port)
    assert FINAL.last("EXPOSE").text == port
    assert f"'{port}'" in FINAL.last("HEALTHCHECK").text
    assert SERVICE["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_every_copied_path_exists_and_is_not_ignored() -> None:
    copies = [step for stage in STAGES for step in stage.steps if step.keyword == "COPY" and "from" not in step.flags]
    copied = [path for step in copies for path in step.words[:-1]]
    assert {"server", "skills_core", "constraints.txt", "pyproject.toml"} <= set(copied)
    assert [path for path in copied if not (REPOSITORY / path).exists() or ignored(path)] == []


@pytest.mark.parametrize("path", [".git/config", ".venv/bin/python", ".env", "server/.env", "server/__pycache__/x.pyc"])
def test_files_that_the_image_does_not_need_are_excluded_from_the_build(path: str) -> None:
    assert ignored(path)


def test_the_state_folder_is_open_to_every_user() -> None:
    (home,) = [each for step in FINAL.steps if step.keyword == "ENV" for each in step.words if "XDG_STATE" in each]
    folder = home.partition("=")[2]
    assert folder in json.loads(FINAL.last("VOLUME").text)
    assert any(f"mkdir -m 1777 {folder}" in step.text for step in FINAL.steps)


def test_a_container_is_healthy_only_when_the_server_is_ready() -> None:
    assert "/ready" in FINAL.last("HEALTHCHECK").text


def test_settings_are_read_from_the_folder_that_the_server_starts_in() -> None:
    steps = STAGES[-1].steps
    (home,) = [each for step in steps if step.keyword == "ENV" for each in step.words if each.startswith("XDG_CONFIG")]
    (folder,) = [step.text for step in steps if step.keyword == "WORKDIR"]
    assert f"{home.partition('=')[2]}/skillserve" == folder


def test_other_commands_in_a_container_see_the_settings_of_its_server() -> None:
    words = [word for step in FINAL.steps if step.keyword == "ENV" for word in step.words]
    assert {"SKILLSERVE_TRANSPORT=http", "SKILLSERVE_HOST=0.0.0.0"} <= set(words)
    # The one flag is not in the image's environment: a container with another command would start without a login.
    assert FINAL.last("CMD").words == ["serve", SERVED, "--insecure"]
    assert not [word for word in words if word.startswith("SKILLSERVE_INSECURE")]
    assert SERVICE["environment"]["SKILLSERVE_INSECURE"] == "true"


def test_no_step_downloads_files_or_embeds_a_secret() -> None:
    steps = [step for stage in STAGES for step in stage.steps]
    assert not [step for step in steps if re.search(r"\b(curl|wget)\b|https?://(?!127\.)|secret", step.text)]
    assert {step.keyword for step in steps}.isdisjoint({"ADD", "ARG"})
    assert not [step for step in steps if re.search("(TOKEN|SECRET|PASSWORD|KEY)=", step.text)]


def test_compose_drops_all_privileges_of_the_container() -> None:
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "user"} & set(SERVICE)


def test_compose_mounts_the_samples_read_only_where_the_image_serves_from() -> None:
    assert SERVICE["volumes"] == [f"${{SKILLS_DIR:-./sample_skills}}:{SERVED}:ro"]
