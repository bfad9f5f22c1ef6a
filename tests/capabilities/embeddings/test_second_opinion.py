"""The second opinion of searches: a model that the library loads, what is kept of it, and what is done without it."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from server.capabilities.embeddings.local_model import search_home
from server.capabilities.embeddings.second_opinion import SecondOpinion
from server.hosting.searches import reranker_of
from skills_core import Environment, Library, SelectionPolicy, Skill, SkillSearch, explicit_sources
from tests.conftest import write_skill
from tests.core.selection.tiny_model import write_model
from tests.server.cli.test_cli import run
from tests.server.sessions import REPOSITORY, server_environment
from tests.server.settings import make_settings

TEN = SelectionPolicy(top_k=10, min_score=0.0)

Skills = tuple[Skill, ...]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return write_model(tmp_path / "model")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "skills", "travelling", description="Plan a trip.")
    write_skill(tmp_path / "skills", "invoices", description="Read bills.")
    return tmp_path / "skills"


@pytest.fixture
def skills(folder: Path) -> Skills:
    return Library(explicit_sources([folder]), lambda: Environment(os="linux", has_bin=lambda _: True)).catalog.offered


def found(opinion: SecondOpinion, skills: Skills, query: str = "holiday") -> list[str]:
    return [match.skill.name for match in SkillSearch(opinion).select(skills, query, TEN)]


def kept() -> list[Path]:
    return sorted(search_home().glob("*.vectors"))


def test_a_first_search_that_waits_finds_by_meaning(model: Path, skills: Skills) -> None:
    assert found(SecondOpinion(str(model), wait=True), skills) == ["travelling"]


def test_words_alone_rank_until_the_model_is_prepared(
    model: Path, skills: Skills, caplog: pytest.LogCaptureFixture
) -> None:
    opinion = SecondOpinion(str(model), wait=False)
    assert found(opinion, skills) == []
    assert found(opinion, skills, "trip") == ["travelling"]
    with caplog.at_level(logging.INFO):
        opinion.prepare(skills)
    assert found(opinion, skills) == ["travelling"]
    assert "skills are found by meaning too; 2 vectors were computed" in caplog.text


def test_vectors_are_kept_under_the_digest_of_the_model_and_of_the_text(
    model: Path, skills: Skills, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    SecondOpinion(str(model), wait=False).prepare(skills)
    (file,) = kept()
    with caplog.at_level(logging.INFO):
        SecondOpinion(str(model), wait=False).prepare(skills)
        assert "0 vectors were computed" in caplog.text
        other = write_model(tmp_path / "other")
        (other / "model.onnx").write_bytes((model / "model.onnx").read_bytes().replace(b"words", b"texts"))
        SecondOpinion(str(other), wait=False).prepare(skills)
    assert len(kept()) == 2
    assert file in kept()


def test_damaged_vectors_are_computed_again(model: Path, skills: Skills) -> None:
    SecondOpinion(str(model), wait=False).prepare(skills)
    (file,) = kept()
    whole = file.read_bytes()
    file.write_bytes(whole[:-7] + b"damaged")
    assert found(SecondOpinion(str(model), wait=True), skills) == ["travelling"]
    assert len(file.read_bytes()) == len(whole)


def test_the_vectors_of_a_few_models_are_kept(model: Path, skills: Skills) -> None:
    search_home().mkdir(parents=True)
    for number in range(9):
        file = search_home() / f"{number}.vectors"
        file.write_bytes(b"")
        os.utime(file, (number, number))
    SecondOpinion(str(model), wait=False).prepare(skills)
    names = {file.stem for file in kept()}
    assert {"5", "6", "7", "8"} < names
    assert len(names) == 5


def test_preparing_stops_when_it_is_told_to(model: Path, skills: Skills) -> None:
    opinion = SecondOpinion(str(model), wait=False)
    opinion.prepare(skills, lambda: False)
    assert not opinion.is_ready
    opinion.prepare(skills)
    assert opinion.is_ready


def test_skills_that_a_search_does_not_cover_have_no_part_in_its_scores(model: Path, skills: Skills) -> None:
    opinion = SecondOpinion(str(model), wait=False)
    opinion.prepare(skills)
    part = tuple(skill for skill in skills if skill.name == "travelling")
    alone = SecondOpinion(str(model), wait=False)
    alone.prepare(part)
    policy = SelectionPolicy(10, 0.0)
    query = "read about a holiday"
    assert SkillSearch(opinion).select(part, query, policy) == SkillSearch(alone).select(part, query, policy)
    assert {match.skill.name for match in SkillSearch(opinion).select(part, "bills", policy)} <= {"travelling"}


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_a_file_is_told_once_and_words_alone_rank(
    model: Path, skills: Skills, caplog: pytest.LogCaptureFixture, missing: str
) -> None:
    (model / missing).unlink()
    opinion = SecondOpinion(str(model), wait=True)
    assert found(opinion, skills, "trip") == found(opinion, skills, "trip") == ["travelling"]
    assert caplog.text.count("words alone rank") == 1
    assert f"{model / missing} is missing" in caplog.text


def test_a_broken_model_is_told_and_words_alone_rank(
    model: Path, skills: Skills, caplog: pytest.LogCaptureFixture
) -> None:
    (model / "model.onnx").write_bytes(b"no model")
    assert found(SecondOpinion(str(model), wait=True), skills, "trip") == ["travelling"]
    assert "cannot be used" in caplog.text


def test_without_the_extra_the_message_says_how_to_install_it(
    skills: Skills, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skills_core.installation.find_spec", lambda _: None)
    assert found(SecondOpinion("any/model", wait=True), skills, "trip") == ["travelling"]
    assert "it needs the extra `embeddings`; install" in caplog.text


def test_nothing_is_loaded_unless_it_is_switched_on(folder: Path) -> None:
    assert reranker_of(make_settings()) is None
    code = (
        "import sys; from server.cli.app import main\n"
        f"sys.argv = ['skillserve', 'search', 'trip', {str(folder)!r}]\n"
        "try: main()\n"
        "finally: print(sorted({'fastembed', 'onnxruntime', 'huggingface_hub'} & sys.modules.keys()))\n"
    )
    environment = server_environment()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY, env=environment
    )
    assert done.stdout.splitlines()[-1] == "[]"


def search(folder: Path, *words: str, **variables: str) -> tuple[list[dict[str, Any]], str]:
    done = run("search", "holiday", folder, "--json", *words, **variables)
    return json.loads(done.stdout)["matches"], done.stderr


def test_one_word_switches_it_on_at_the_command_line(model: Path, folder: Path) -> None:
    variables = {"SKILLSERVE_EMBEDDINGS_MODEL": str(model)}
    assert search(folder, **variables) == ([], "")
    (match,), errors = search(folder, "--embeddings", **variables)
    assert (match["name"], match["why"], match["weak"], errors) == ("travelling", {}, False, "")


def test_a_model_that_cannot_be_fetched_leaves_the_words_and_says_so(model: Path, folder: Path) -> None:
    del model
    # With this variable the library asks no network, as on a machine without one.
    done = run("search", "trip", folder, "--embeddings", "--json", HF_HUB_OFFLINE="1")
    assert [match["name"] for match in json.loads(done.stdout)["matches"]] == ["travelling"]
    assert "words alone rank, because the model sentence-transformers/all-MiniLM-L6-v2 cannot be used" in done.stderr
    assert "fetch it once with a network" in done.stderr


def test_status_and_config_check_tell_whether_it_can_be_used(model: Path, folder: Path) -> None:
    assert "search by meaning: off" in run("status", folder).stdout
    told = run("status", folder, SKILLSERVE_EMBEDDINGS="true", SKILLSERVE_EMBEDDINGS_MODEL=str(model)).stdout
    assert f"search by meaning: on; the model {model} is on this machine" in told
    told = run("status", folder, SKILLSERVE_EMBEDDINGS="true").stdout
    assert "all-MiniLM-L6-v2 is fetched at its first use" in told
    (model / "model.onnx").unlink()
    checked = run("config", "check", SKILLSERVE_EMBEDDINGS="true", SKILLSERVE_EMBEDDINGS_MODEL=str(model))
    assert "model.onnx is missing" in checked.stdout + checked.stderr
    both = run("status", folder, SKILLSERVE_EMBEDDINGS="true", SKILLSERVE_RERANKER="a:b")
    assert both.returncode == 2
    assert "cannot be combined" in both.stderr
