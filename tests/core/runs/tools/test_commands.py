"""`run_command` and `git_diff`, with real programs and real repositories, hostile ones among them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skills_core.guard.tool import CallDecision
from skills_core.runs.tools import WorkspaceTool
from skills_core.runs.tools.commands import workspace_tools

HOST = {"PATH": os.environ["PATH"], "SKILLSERVE_ADMIN_TOKEN": "secret", "AWS_SECRET": "secret", "HOME": "/nowhere"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def call(work: Path, make_gate: Any) -> Any:
    async def run(name: str, *, seconds: float = 60.0, **arguments: Any) -> Any:
        return await make_gate(*workspace_tools(work, WorkspaceTool, HOST), seconds=seconds).call(name, arguments, 3)

    return run


async def run_python(call: Any, code: str, **options: Any) -> Any:
    return await call("run_command", command=[sys.executable, "-c", code], **options)


async def test_a_command_runs_in_the_workspace_and_reports_how_it_ended(work: Path, call: Any) -> None:
    code = "import os, sys; print(os.getcwd()); print('oops', file=sys.stderr); sys.exit(3)"
    result = await run_python(call, code)
    assert result.text == f"[exit code 3]\n{work}\n[stderr]\noops"


async def test_a_command_gets_a_stated_environment_and_the_key_of_its_call(call: Any) -> None:
    text = (await run_python(call, "import os; print(sorted(os.environ)); print(os.environ['IDEMPOTENCY_KEY'])")).text
    assert "SKILLSERVE_ADMIN_TOKEN" not in text
    assert "AWS_SECRET" not in text
    assert text.endswith("r1/3")


async def test_there_is_no_shell(work: Path, call: Any) -> None:
    result = await run_python(call, "import sys; print(sys.argv)")
    assert result.text.endswith("['-c']")
    result = await call("run_command", command=[sys.executable, "-c", "import sys; print(sys.argv)", "$(touch x)", "*"])
    assert result.text.endswith("['-c', '$(touch x)', '*']")
    assert list(work.iterdir()) == []
    result = await call("run_command", command=["git", "status", "&&", "rm"])
    assert result.text == "there is no shell, so && means nothing; run one command in each call"
    result = await call("run_command", command=["git status && rm -rf x"])
    assert "write each argument as a word of its own" in result.text
    assert (await call("run_command", command="git status")).decision is CallDecision.INVALID_ARGUMENTS
    assert (await call("run_command", command=[])).decision is CallDecision.INVALID_ARGUMENTS


@pytest.mark.skipif(os.name == "nt", reason="scripts have no #! there")
async def test_a_program_in_the_workspace_is_only_started_by_a_path(work: Path, call: Any) -> None:
    (work / "git").write_text("#!/bin/sh\necho mine\n")
    (work / "git").chmod(0o755)
    assert "mine" not in (await call("run_command", command=["git", "--version"])).text
    assert (await call("run_command", command=["./git"])).text == "[exit code 0]\nmine"
    assert (await call("run_command", command=["../git"])).decision is CallDecision.FAILED


async def test_a_command_with_too_much_output_or_time_is_terminated(call: Any) -> None:
    flood = await run_python(call, "while True: print('x' * 10000)")
    assert flood.text.startswith("[it was terminated, because it wrote more than 1048576 bytes]")
    hang = await run_python(call, "import time; time.sleep(600)", seconds=0.5)
    assert hang.decision is CallDecision.TIMED_OUT


async def test_invalid_arguments_of_a_program_are_an_error(call: Any) -> None:
    assert (await call("run_command", command=["git", "a\0b"])).decision is CallDecision.FAILED
    assert (await call("run_command", command=["no-such-program"])).text == "no-such-program: there is no such program"


@pytest.fixture
def git(work: Path) -> Any:
    """Run git in the workspace, which becomes a repository with one commit."""

    def run(*arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main", *arguments]
        return subprocess.run(command, cwd=work, check=True, capture_output=True, text=True).stdout

    run("init", "-q")
    (work / "a.txt").write_text("one\n")
    run("add", ".")
    run("commit", "-qm", "first")
    (work / "a.txt").write_text("two\n")
    return run


@pytest.mark.usefixtures("git")
async def test_what_changed_is_shown(work: Path, git: Any, call: Any) -> None:
    text = (await call("git_diff")).text
    assert "-one\n+two\n" in text
    assert (await call("git_diff", staged=True)).text == "Nothing has changed."
    git("commit", "-qam", "second")
    assert "-one\n+two\n" in (await call("git_diff", revision="HEAD~1")).text
    assert "-one\n+two\n" in (await call("git_diff", revision="HEAD~1", path="a.txt")).text
    assert (await call("git_diff", revision="HEAD~1", path="other")).text == "Nothing has changed."
    assert (await call("git_diff", revision="no-such")).text.startswith("git: ")
    assert not (work / ".git" / "index.lock").exists()


@pytest.mark.usefixtures("git")
@pytest.mark.parametrize(
    "revision", ["--output=owned", "-O/etc/passwd", "--no-index", "HEAD:a.txt", "a b", ":/x", "..\n"]
)
async def test_a_revision_is_never_an_option_nor_a_file(revision: str, work: Path, call: Any) -> None:
    result = await call("git_diff", revision=revision)
    assert "not a commit or branch" in result.text
    assert not (work / "owned").exists()


@pytest.mark.usefixtures("git")
@pytest.mark.parametrize("path", ["--output=owned", ":(exclude)x", ":/", "../x", "/etc"])
async def test_a_path_is_never_an_option_nor_magic(path: str, work: Path, call: Any) -> None:
    result = await call("git_diff", path=path)
    assert "two" not in result.text
    assert not (work / "owned").exists()


HOSTILE = {
    "fsmonitor": "[core]\n\tfsmonitor = {touch}\n",
    "hooks": "[core]\n\thooksPath = hooks\n",
    "pager": "[core]\n\tpager = {touch}\n[pager]\n\tdiff = {touch}\n",
    "external diff": "[diff]\n\texternal = {touch}\n",
    "driver": '[diff "evil"]\n\tcommand = {touch}\n\ttextconv = {touch}\n\tcachetextconv = true\n',
    "clean": '[filter "evil"]\n\tclean = {touch}\n\trequired = true\n',
    "smudge": '[filter "evil"]\n\tsmudge = {touch}\n\tprocess = {touch}\n',
    "odd filter": '[filter "e.v"]\n\tclean = {touch}\n',
    "upper filter": '[FILTER "evil"]\n\tCLEAN = {touch}\n\tProcess = {touch}\n',
    "alias": "[alias]\n\tdiff = !{touch}\n\tconfig = !{touch}\n",
    "promisor": "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = evil\n"
    '[remote "evil"]\n\turl = ext::{touch}\n\tpromisor = true\n[protocol "ext"]\n\tallow = always\n',
    "ssh": "[core]\n\trepositoryformatversion = 1\n\tsshCommand = {touch}\n[extensions]\n\tpartialClone = evil\n"
    '[remote "evil"]\n\turl = ssh://x/y\n\tpromisor = true\n',
}


@pytest.mark.skipif(os.name == "nt", reason="the programs of these repositories are scripts")
@pytest.mark.usefixtures("git")
@pytest.mark.parametrize("name", HOSTILE)
async def test_no_program_that_a_repository_names_is_run(
    name: str, work: Path, tmp_path: Path, git: Any, call: Any
) -> None:
    witness, script = tmp_path / "owned", tmp_path / "touch.sh"
    script.write_text(f"#!/bin/sh\ntouch {witness}\ncat\n")
    script.chmod(0o755)
    attribute = "e.v" if name == "odd filter" else "evil"
    (work / ".git" / "info" / "attributes").write_text(f"* filter={attribute} diff={attribute}\n")
    (work / ".gitattributes").write_text("*.txt filter=evil diff=evil\n")
    (work / "hooks").mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "post-checkout"):
        (work / "hooks" / hook).write_text(script.read_text())
        (work / "hooks" / hook).chmod(0o755)
    # An entry of the index that git wants to look at again, and an object that is missing.
    os.utime(work / "a.txt", (1, 1))
    if name in {"promisor", "ssh"}:
        blob = git("rev-parse", "HEAD:a.txt").strip()
        (work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with (work / ".git" / "config").open("a") as config:
        config.write(HOSTILE[name].format(touch=script))
    await call("git_diff")
    await call("git_diff", staged=True)
    await call("git_diff", revision="HEAD")
    assert not witness.exists()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")
@pytest.mark.usefixtures("git")
@pytest.mark.parametrize("way", ["file", "link", "worktree", "commondir", "alternates", "objects", "index", "none"])
async def test_a_repository_that_refers_elsewhere_is_not_read(way: str, work: Path, tmp_path: Path, call: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "a.txt").write_text("the secret\n")
    repository = work / ".git"
    if way in {"file", "link", "none"}:
        repository.rename(elsewhere / ".git")
    if way == "file":
        repository.write_text(f"gitdir: {elsewhere}/.git\n")
    elif way == "link":
        repository.symlink_to(elsewhere / ".git")
    elif way == "worktree":
        with (repository / "config").open("a") as config:
            config.write(f"[core]\n\tworktree = {elsewhere}\n")
    elif way == "commondir":
        (repository / "commondir").write_text(f"{elsewhere}\n")
    elif way == "alternates":
        (repository / "objects" / "info" / "alternates").write_text(f"{elsewhere}\n")
    elif way in {"objects", "index"}:
        (repository / way).rename(elsewhere / way)
        (repository / way).symlink_to(elsewhere / way)
    result = await call("git_diff")
    assert "secret" not in result.text
    assert (result.decision is CallDecision.DONE) == (way == "worktree")
