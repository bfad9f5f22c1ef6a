from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from conformance.clients import catalogs, scenarios
from conformance.clients.checks import CHECKS, Column, Finding, Verdict
from conformance.clients.client import Run
from conformance.clients.dialects.messages import Call, Json, Request, Text, Tool
from conformance.clients.document import PAGE, page
from conformance.clients.host_tools import call_for
from conformance.clients.install import unpinned
from conformance.clients.measurement import Measurement, added_tokens
from conformance.clients.names import described_in
from conformance.clients.read_on import read_on
from conformance.clients.recording import Exchange, Recorder, Recording, Step
from conformance.clients.results import fallen, keep, kept
from conformance.clients.scenarios import ScenarioName
from conformance.clients.scripted_model import Reply, ScriptedModel
from conformance.clients.slash_results import kept as kept_slashes


@dataclass
class Host:
    """A client and its server in one, which plays a scenario with a scripted model."""

    folder: Path
    listed: int = 1000
    """How many skills the description of the tool describes."""
    part: int = 1_000_000
    """The longest result of the server, which then says how to read on."""
    cut: int = 1_000_000
    """The longest result that the client shows."""
    tells: bool = True
    """Whether results tell of changes."""
    added: bool = True
    """Whether an added skill can be activated."""
    way: str = ""
    """What the news says of how to load an added skill."""
    links: bool = False
    """Whether an activation is a link, which another tool reads."""
    results: list[str] = field(default_factory=list)

    def play(self, column: Column) -> Finding:
        check = next(check for check in CHECKS if check.column is column)
        scenario = scenarios.SCENARIOS[check.scenario]
        names = catalogs.write_catalog(self.folder, scenario.size)
        model = ScriptedModel(lambda first: scenario.play(self.folder, names, first))
        exchanges: list[Exchange] = []
        skills = catalogs.catalog(scenario.size)
        listing = "\n".join(f"{name}: {skills[name]}" for name in names[: self.listed])
        schema = {"properties": {"name": {"enum": list(names)}}}
        ours = (Tool("activate_skill", listing, schema), Tool("find_skills"), Tool("read_skill_file"))
        tools = (*ours, Tool("read_mcp_resource")) if self.links else ours
        call: object = None
        while not exchanges or isinstance(call, Call):
            request = Request(tools, "", tuple(self.results))
            reply = model.answer(request)
            exchanges.append(Exchange(request, Step(reply.step.name, self._json(reply.step)) if reply.step else None))
            call = reply.parts[0]
            if isinstance(call, Call):
                self.results.append(self._result(call.name, self._json(call))[: self.cut])
        return check.judge(Recording(tuple(exchanges)), skills)

    @staticmethod
    def _json(call: Call) -> Json:
        assert not isinstance(call.arguments, str)
        return call.arguments

    def _result(self, tool: str, arguments: Json) -> str:
        if tool == "find_skills":
            verb, _, subject = arguments["query"].partition(" a ")
            return f'{{"matches": [{{"name": "{subject}-{verb}"}}]}}'
        if tool == "read_mcp_resource":
            return (self.folder / str(arguments["uri"]).split("/")[2] / "SKILL.md").read_text(encoding="utf-8")
        name, offset = str(arguments.get("name") or arguments["skill"]), int(arguments.get("offset", 0))
        news = f"\nNew: {catalogs.ADDED}.{self.way} Changed: {catalogs.LOADED}." if self._changed and self.tells else ""
        if name == catalogs.ADDED and tool == "activate_skill" and not self.added:
            return "name must be one of the allowed values"
        text = (self.folder / name / "SKILL.md").read_text(encoding="utf-8")
        end = offset + self.part
        if self.links:
            return f"Resource Link: {name}. Read it with read_mcp_resource. It stands at skill://{name}/SKILL.md{news}"
        if end >= len(text):
            return text[offset:] + news
        end = text.rindex("\n", offset, end) + 1
        return f'{text[offset:end]}Call read_skill_file with skill "{name}", path "SKILL.md" and offset {end}.'

    @property
    def _changed(self) -> bool:
        return (self.folder / catalogs.ADDED).exists()


@pytest.fixture(autouse=True)
def _without_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "THINKING", 0.0)


@pytest.mark.parametrize("column", Column)
def test_a_host_that_shows_everything_has_a_yes_in_each_column(column: Column, tmp_path: Path) -> None:
    assert Host(tmp_path).play(column).verdict is Verdict.YES


@pytest.mark.parametrize("column", Column)
def test_a_host_whose_activations_are_links_that_its_model_reads_has_the_same(column: Column, tmp_path: Path) -> None:
    assert Host(tmp_path, links=True).play(column) == Host(tmp_path / "text").play(column)


def test_a_skill_is_seen_by_its_description_and_named_anywhere(tmp_path: Path) -> None:
    assert Host(tmp_path, listed=7).play(Column.SEEN_100) == Finding(Verdict.PARTLY, "7")
    assert Host(tmp_path, listed=0).play(Column.SEEN_100) == Finding(Verdict.NO, "0")
    assert Host(tmp_path, listed=7).play(Column.NAMED_100) == Finding(Verdict.YES, "100")


ORGAN, ORGAN_TEXT = "organ-weigh", "Helps to weigh an organ: lists what is needed. Use when the user asks."


@pytest.mark.parametrize(
    ("listing", "described"),
    [
        (f"{ORGAN}: {ORGAN_TEXT}", True),
        (f"<skill><name>{ORGAN}</name>\n<description>{ORGAN_TEXT}</description></skill>", True),
        (f"- {ORGAN}: Helps to weigh an organ: li…", True),
        (f"- {ORGAN}: weigh organ; what is needed", True),
        (f"- {ORGAN}: Helps to…", False),
        (f"{ORGAN}, other-skill: {ORGAN_TEXT}", False),
        (f"{ORGAN_TEXT} {ORGAN}", False),
        (ORGAN, False),
        ("no skill at all", False),
    ],
)
def test_a_skill_is_described_by_words_of_its_description_behind_its_name(listing: str, described: bool) -> None:  # noqa: FBT001 - a parameter
    request = Request((Tool("activate_skill", "Loads.", {"enum": [ORGAN, "other-skill"]}),), listing, ())
    skills = {ORGAN: ORGAN_TEXT, "other-skill": "Another text about nothing of that kind."}
    assert described_in(request, skills) == ({ORGAN} if described else set())


def test_a_skill_out_of_sight_is_searched_for(tmp_path: Path) -> None:
    assert Host(tmp_path, listed=7).play(Column.FINDS_100).verdict is Verdict.YES
    assert Host(tmp_path, listed=7, cut=20).play(Column.FINDS_100).verdict is Verdict.NO


def test_a_body_in_parts_that_say_how_to_read_on_arrives(tmp_path: Path) -> None:
    assert Host(tmp_path, part=8_000).play(Column.LONG_BODY) == Finding(Verdict.YES, "4 parts")


def test_a_body_that_the_client_cuts_does_not_arrive(tmp_path: Path) -> None:
    found = Host(tmp_path, cut=8_000).play(Column.LONG_BODY)
    assert found.verdict is Verdict.NO
    assert found.measured.endswith(f"of {len(catalogs.LINES)} lines")
    # The line that says how to read on is cut away as well.
    assert Host(tmp_path, cut=8_000, part=9_000).play(Column.LONG_BODY).verdict is Verdict.NO


def test_news_that_no_text_brings_is_no_news(tmp_path: Path) -> None:
    added, edited = (Host(tmp_path / name, tells=False).play(Column(name)) for name in (Column.ADDED, Column.EDITED))
    assert (added.verdict, edited.verdict) == (Verdict.PARTLY, Verdict.PARTLY)


def test_an_added_skill_that_cannot_be_loaded_is_named_with_what_the_client_said(tmp_path: Path) -> None:
    found = Host(tmp_path, added=False).play(Column.ADDED)
    assert found.verdict is Verdict.PARTLY
    assert "must be one of the allowed values" in found.reason


def test_an_added_skill_is_loaded_the_way_that_the_news_names(tmp_path: Path) -> None:
    found = Host(tmp_path, added=False, way=" Here read_skill_file loads it.").play(Column.ADDED)
    assert found == Finding(Verdict.YES, "by read_skill_file")


@pytest.mark.parametrize(
    "line",
    [
        "Read on: read_skill_file(skill='long', path='SKILL.md', offset=800, limit=70)",
        'Continue with `read_skill_file`: {"skill": "long", "path": "SKILL.md", "offset": 800, "limit": 70}',
        r'"…\nCall mcp_skills_read_skill_file with skill \"long\", path \"SKILL.md\", offset 800 and limit 70.\n"',
        "Call read_skill_file with offset 800 and limit 70 for the rest.",
    ],
)
def test_a_line_that_says_how_to_read_on_is_followed(line: str) -> None:
    arguments = {"skill": "long", "path": "SKILL.md", "offset": 800, "limit": 70}
    assert read_on(f"text\n{line}", "long") == Call("read_skill_file", arguments)


def test_a_mention_without_an_offset_is_not_followed() -> None:
    assert read_on("Read other files with read_skill_file(skill, path).\nAt offset 12 of the table.", "long") is None


def test_results_of_other_clients_remain_and_worse_ones_are_named(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    yes, no = ({Column.ADDED: Finding(verdict, reason="r")} for verdict in (Verdict.YES, Verdict.NO))
    keep({"claude": Measurement("claude", "1", "2026-01-01", yes)}, path)
    keep({"codex": Measurement("codex", "1", "2026-01-02", no)}, path)
    assert list(kept(path)) == ["claude", "codex"]
    before, after = kept(path).values()
    assert list(fallen(before, after)) == ["news: added: yes before, no now: r"]
    assert list(fallen(after, before)) == []


def test_an_earlier_version_is_kept_beside_the_newest_and_shown_below_it(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    found = {Column.ACTIVATES: Finding(Verdict.NO, reason="Unexpected response type")}
    newest = Measurement("codex", "0.169.0", "2026-11-25", {}, {10: 1145})
    earlier = Measurement("codex", "0.156.1", "2026-11-25", found, {10: 1200}, before="2026-09-25")
    keep({each.key: each for each in (earlier, newest)}, path)
    assert kept(path) == {"codex": newest, "codex 0.156.1": earlier}
    shown = page(kept(path), {})
    assert shown.index("| Codex | 0.169.0 |") < shown.index("| Codex | 0.156.1 (before 2026-09-25) |")
    assert "**Codex 0.156.1**\n\n- activates: Unexpected response type." in shown


def test_tokens_are_what_the_first_request_has_more_than_without_skills() -> None:
    def recording(text: str) -> Recording:
        tool = Tool("shell", "Runs a command.")
        return Recording((Exchange(Request((tool,), text, ()), None), Exchange(Request((tool,), "-" * 999, ()), None)))

    bare, hundred = recording("You are an agent."), recording("You are an agent." + "x" * 400)
    assert added_tokens({ScenarioName.BARE: bare, ScenarioName.HUNDRED: hundred}) == {100: 100}
    assert added_tokens({ScenarioName.HUNDRED: hundred}) == {}


def test_a_client_without_tools_is_recorded_too(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    for text in ("Write a title.", "Write the release notes."):
        Recorder(path).write("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}, Reply([]))
    assert [each.request.text for each in Recording.read(path).exchanges] == [
        "Write a title.",
        "Write the release notes.",
    ]


def test_the_bare_server_offers_no_tools(tmp_path: Path) -> None:
    words = Run(tmp_path, "", served=False).server
    asked: list[Json] = [
        {"id": 1, "method": "server/discover", "params": {}},
        {"id": 2, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 3, "method": "tools/list"},
    ]
    lines = "".join(f"{json.dumps({'jsonrpc': '2.0', **each})}\n" for each in asked)
    done = subprocess.run(words, input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["id"] for each in answers] == [1, 2, 3]
    assert answers[0]["error"]["code"] == -32601
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[2]["result"] == {"tools": []}


def test_earlier_versions_are_asked_for_without_pins(tmp_path: Path) -> None:
    package = tmp_path / "pinned"
    package.mkdir()
    (package / "package.json").write_text('{"name": "x", "dependencies": {"codex": "0.169.0"}}', encoding="utf-8")
    for name in ("agent.mjs", "requirements.txt", "constraints.txt"):
        (package / name).write_text(name, encoding="utf-8")
    folder = unpinned(package, tmp_path / "earlier")
    assert json.loads((folder / "package.json").read_text(encoding="utf-8"))["dependencies"] == {"codex": "*"}
    assert sorted(path.name for path in folder.iterdir()) == ["agent.mjs", "package.json", "requirements.txt"]


def test_hosts_that_wait_for_a_call_at_the_end_are_given_it() -> None:
    idle = scenarios.SCENARIOS[ScenarioName.BARE]
    model = ScriptedModel(lambda first: idle.play(Path(), (), first))
    assert model.answer(Request((Tool("final_answer"),), "", ())).parts == [Call("final_answer", {"answer": "done"})]
    assert model.answer(Request((Tool("shell"),), "", ())).parts == [Text("done")]


def test_a_tool_whose_name_ends_in_a_hash_is_the_servers() -> None:
    tools = (Tool("skills_activate_skill_6dc0b6fe487c"), Tool("shell"))
    called = call_for(Call("activate_skill", {"name": "x"}), tools)
    assert called == Call("skills_activate_skill_6dc0b6fe487c", {"name": "x"})


def test_the_page_shows_the_kept_results() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(kept(), kept_slashes()), (
        "run `python -m conformance.clients.document`"
    )
