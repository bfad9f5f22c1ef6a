"""Feedback: its file, and the loopback server that writes it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from server.capabilities.evals.report.serving import MAX_FEEDBACK, FeedbackError, ReportServer, save_feedback
from skills_core.evals.feedback import read_feedback
from tests.capabilities.evals.report.workspaces import write, write_iteration


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    for number in (1, 2):
        write_iteration(root / f"iteration-{number}", {"a": ((True,), (True,)), "b": ((True,), (True,))})
    return root


class Opened:
    """A client of a server, with what its page would send."""

    def __init__(self, server: ReportServer, client: httpx2.AsyncClient) -> None:
        self.url = server.url
        self.origin = server.url[: server.url.index("/", len("http://"))]
        self.client = client

    async def save(self, body: Any, headers: dict[str, str] | None = None, **more: Any) -> httpx2.Response:
        if isinstance(body, dict) and "feedback" in body:
            body = {"version": "", **body}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Content-Type": "application/json", "Origin": self.origin, **(headers or {})}
        url = more.pop("url", f"{self.url}feedback")
        return await self.client.post(url, content=content, headers={k: v for k, v in sent.items() if v})

    async def case(self, key: str) -> Any:
        return (await self.client.get(f"{self.url}case", params={"key": key})).json()


@pytest.fixture
async def opened(root: Path) -> AsyncIterator[Opened]:
    server = ReportServer(root)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(server.app)) as client:
        yield Opened(server, client)
    server.close()


def words_of(root: Path) -> Any:
    return {name: each for name, each in feedback_of(root).items() if name != "reviews"}


def feedback_of(root: Path) -> Any:
    return json.loads((root / "iteration-2/feedback.json").read_bytes())


async def test_the_text_of_a_case_is_saved_and_others_are_kept(root: Path, opened: Opened) -> None:
    assert (await opened.save({"case": "eval-a", "feedback": "no labels 📈"})).status_code == 200
    assert (await opened.save({"case": "eval-b", "feedback": ""})).status_code == 200
    found = feedback_of(root)
    # skill-creator's viewer shows reviews alone, and keeps nothing else.
    assert [(each["run_id"], each["feedback"]) for each in found.pop("reviews")] == [
        ("eval-a-with_skill", "no labels 📈"),
        ("eval-b-with_skill", ""),
    ]
    assert found == {"eval-a": "no labels 📈", "eval-b": ""}
    assert sorted(path.name for path in root.rglob("*feedback*")) == ["feedback.json"]
    assert (await opened.case("eval-a"))["feedback"] == "no labels 📈"


async def test_a_later_save_does_not_overwrite_the_text_of_another_tab(root: Path, opened: Opened) -> None:
    first = (await opened.save({"case": "eval-a", "feedback": "from one tab"})).json()
    refused = await opened.save({"case": "eval-a", "feedback": "from another"})
    assert (refused.status_code, refused.json()["feedback"]) == (409, "from one tab")
    assert "changed elsewhere" in refused.json()["error"]
    assert words_of(root) == {"eval-a": "from one tab"}
    # A click right after leaving the field sends the same text twice.
    assert (await opened.save({"case": "eval-a", "feedback": "from one tab"})).status_code == 200
    replaced = {"case": "eval-a", "feedback": "from another", "version": refused.json()["version"]}
    assert refused.json()["version"] == first["version"]
    assert (await opened.save(replaced)).status_code == 200
    assert words_of(root) == {"eval-a": "from another"}


async def test_the_page_knows_the_version_of_each_text(root: Path, opened: Opened) -> None:
    write(root / "iteration-2/feedback.json", {"eval-a": "hidden\u202e and\r\nlines"})
    case = await opened.case("eval-a")
    assert case["feedback"] == "hidden[U+202E] and\nlines"
    assert (await opened.case("eval-b"))["version"] == ""
    assert (await opened.save({"case": "eval-a", "feedback": "x", "version": case["version"]})).status_code == 200


async def test_a_case_is_read_when_it_is_opened_and_no_other_is(root: Path, opened: Opened) -> None:
    case = await opened.case("eval-a")
    assert [file["content"] for run in case["runs"] for file in run["files"]] == ["An answer to a.\n"]
    write(root / "iteration-2/eval-a/with_skill/outputs/answer.txt", "x" * 60_000)
    case = await opened.case("eval-a")
    assert [file["content"] for run in case["runs"] for file in run["files"]] == ["x" * 60_000]
    for key in ("eval-c", "../iteration-1/eval-a", "", "eval-a/with_skill"):
        answer = await opened.client.get(f"{opened.url}case", params={"key": key})
        assert (answer.status_code, list(answer.json())) == (404, ["error"])
    answer = await opened.client.get(f"{opened.origin}/wrong/case", params={"key": "eval-a"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ""}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost:1"}, 421),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": ""}, 415),
    ],
)
async def test_a_write_comes_from_this_page_alone(
    root: Path, opened: Opened, headers: dict[str, str], status: int
) -> None:
    answer = await opened.save({"case": "eval-a", "feedback": "x"}, headers)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert not (root / "iteration-2/feedback.json").exists()


@pytest.mark.parametrize("path", ["", "wrong/", "wrong/state", "wrong/feedback", "%FF/", "../workspace/"])
async def test_without_the_token_nothing_is_shown(opened: Opened, path: str) -> None:
    answer = await opened.client.get(f"{opened.origin}/{path}")
    assert answer.status_code in {403, 404, 405}
    assert "Evals" not in answer.text


async def test_a_page_of_another_name_cannot_read(opened: Opened) -> None:
    # A DNS name that was rebound to 127.0.0.1 sends its own name.
    answer = await opened.client.get(opened.url, headers={"Host": "rebound.example"})
    assert answer.status_code == 421
    answer = await opened.client.get(opened.url, headers={"Origin": "http://evil.example"})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b"[" * 100_000, 400),
        ({"case": "eval-a"}, 400),
        ({"case": 1, "feedback": "x"}, 400),
        ({"case": "eval-a", "feedback": "x", "version": None}, 400),
        ({"case": "eval-a", "feedback": "x", "path": "../x"}, 400),
        ({"case": "eval-a", "feedback": "x" * (MAX_FEEDBACK + 1)}, 400),
        (b" " * 300_000, 400),
        ({"case": "../../eval-a", "feedback": "x"}, 409),
        ({"case": "reviews", "feedback": "x"}, 409),
    ],
)
async def test_what_is_no_feedback_of_a_case_is_refused(root: Path, opened: Opened, body: Any, status: int) -> None:
    answer = await opened.save(body)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert not (root / "iteration-2/feedback.json").exists()


async def test_feedback_is_saved_with_the_outputs_that_the_page_has_shown(root: Path, opened: Opened) -> None:
    shown, newer = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
    assert (await opened.save({"case": "eval-a", "feedback": "short", "outputs": shown})).status_code == 200
    assert words_of(root) == {"eval-a": "short", "outputs": {"eval-a": shown}}
    assert read_feedback(feedback_of(root), {"eval-a"}).on("eval-a", newer).replaced == "short"
    assert (await opened.save({"case": "eval-a", "feedback": "x", "outputs": "../x"})).status_code == 400


async def test_the_state_changes_with_the_results_and_not_with_feedback(root: Path, opened: Opened) -> None:
    async def state() -> str:
        return str((await opened.client.get(f"{opened.url}state")).json()["state"])

    before = await state()
    await opened.save({"case": "eval-a", "feedback": "x"})
    write(root / "report.html", "page")
    assert await state() == before
    write(root / "iteration-2/eval-a/with_skill/grading.json", {})
    assert await state() != before


async def test_responses_are_private(opened: Opened) -> None:
    headers = (await opened.client.get(opened.url)).headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].endswith("frame-ancestors 'none'")
    assert "connect-src 'self'" in headers["content-security-policy"]


def test_each_server_has_its_own_port_and_token(root: Path) -> None:
    servers = [ReportServer(root), ReportServer(root)]
    assert len({server.url for server in servers}) == 2
    assert all(server.url.startswith("http://127.0.0.1:") for server in servers)
    for server in servers:
        server.close()


def test_reviews_of_skill_creator_are_kept_beside_ours(root: Path) -> None:
    reviews = [{"run_id": "eval-a-with_skill", "feedback": "old", "timestamp": ""}]
    write(root / "iteration-2/feedback.json", {"reviews": reviews, "status": "complete"})
    save_feedback(root, "iteration-2", "eval-a", "new")
    assert feedback_of(root) == {"reviews": reviews, "status": "complete", "eval-a": "new"}
    assert read_feedback(feedback_of(root), {"eval-a"}).words == {"eval-a": "new"}


async def test_words_survive_skill_creators_viewer(root: Path, opened: Opened) -> None:
    for words in ("old", "no labels"):
        version = (await opened.case("eval-a"))["version"]
        await opened.save({"case": "eval-a", "feedback": words, "version": version})
    # The viewer writes the reviews that it has read, and nothing else.
    write(root / "iteration-2/feedback.json", {"reviews": feedback_of(root)["reviews"], "status": "complete"})
    assert read_feedback(feedback_of(root), {"eval-a"}).words == {"eval-a": "with_skill: no labels"}


@pytest.mark.parametrize("content", ["{broken", "[]", '"text"'])
def test_a_file_that_cannot_be_read_is_not_overwritten(root: Path, content: str) -> None:
    write(root / "iteration-2/feedback.json", content)
    with pytest.raises(FeedbackError, match="was not saved"):
        save_feedback(root, "iteration-2", "eval-a", "x")
    assert (root / "iteration-2/feedback.json").read_text() == content


def test_a_link_in_the_place_of_the_file_is_not_followed(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    write(other, {})
    (root / "iteration-2/feedback.json").symlink_to(other)
    with pytest.raises(FeedbackError):
        save_feedback(root, "iteration-2", "eval-a", "x")
    assert other.read_text() == "{}"


@pytest.mark.parametrize(
    ("run", "case"),
    [("eval-a", "eval-a"), ("eval-a-with_skill", "eval-a"), ("eval-a-b-with_skill-run-1", "eval-a-b"), ("x", None)],
)
def test_the_id_of_a_review_names_the_longest_case(run: str, case: str | None) -> None:
    found = read_feedback({"reviews": [{"run_id": run, "feedback": ""}]}, {"eval-a", "eval-a-b"})
    assert found.words == ({case: ""} if case else {})
