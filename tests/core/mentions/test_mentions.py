"""Which tools and files a body mentions."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skills_core.mentions.markdown import without_fences
from skills_core.mentions.paths import Respelled, mentioned_paths, missing_scripts
from skills_core.mentions.tools import mentioned_tools

FILES = frozenset(
    {"scripts/run.py", "references/forms.md", "forms.md", "README.md", "a b.md", "docs/übersicht.md", "x/y/z.txt"}
)


def named(body: str, *declared: str, own: tuple[str, ...] = ()) -> list[str]:
    return [mention.name for mention in mentioned_tools(body, declared, own) if mention.in_body]


def paths(body: str, *names: str) -> list[str]:
    return list(mentioned_paths(body, FILES, names).paths)


@pytest.mark.parametrize(
    "body",
    [
        "Use AskUserQuestion.",
        "使用AskUserQuestion询问用户",
        "**AskUserQuestion**: which one?",
        "`AskUserQuestion(questions=[…])`",
        "```\nAskUserQuestion with questions:\n```",
    ],
)
def test_a_distinctive_name_counts_wherever_it_is_a_word(body: str) -> None:
    assert named(body) == ["AskUserQuestion"]


@pytest.mark.parametrize(
    "body",
    ["MyAskUserQuestion", "AskUserQuestions", "AskUserQuestion_v2", "$AskUserQuestion", "ask-user-question"],
)
def test_a_name_within_a_longer_word_does_not_count(body: str) -> None:
    assert named(body) == []


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("Use the Read tool.", "Read"),
        ("Call **Read** tool first", "Read"),
        ("with the `Read` tool", "Read"),
        ("via the `fetch` tool", "fetch"),
        ("Use `Grep` to find it", "Grep"),
        ("Use Bash(git status:*)", "Bash"),
        ("Using Grep, find it", "Grep"),
        ("`Glob(pattern='**/*.md')`", "Glob"),
    ],
)
def test_a_common_word_counts_where_the_text_treats_it_as_a_tool(body: str, name: str) -> None:
    assert named(body) == [name]


@pytest.mark.parametrize(
    "body",
    [
        "Read the file, then Edit it and Write the result.",
        "Task: write a shell script. The Agent reads it.",
        "Run `grep -r x .` and `bash run.sh`, then `read` the list.",
        "A `Task` is awaited; return `Task<int>`.",
        "Click `Edit`.",
        "- **Agent平台**: any AI Agent(Claude Code / Cursor)",
        "```python\nRead(path)\nTask(name='x')\n```",
        "Works in PowerShell, bash and cmd.",
        "```js\nconst TaskList = () => null\n```",
        "the fetch tool chain",
    ],
)
def test_a_common_word_alone_is_no_tool(body: str) -> None:
    assert named(body) == []


def test_a_list_with_an_unmistakable_tool_is_a_list_of_tools() -> None:
    assert named("with internal tools (Read, Grep, and Bash)") == ["Read", "Grep", "Bash"]
    assert named("permissions: Read, Write, Edit") == []
    assert named("Read and Grep") == []


def test_a_word_in_a_code_span_counts_if_another_tool_is_certain() -> None:
    assert named("First `Read` it.") == []
    assert named("First `Read` it.", "Read") == ["Read"]
    assert named("First `Read` it, then use `Grep`.") == ["Read", "Grep"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("Call `run_shell_command`.", ["run_shell_command"]),
        ("apply_patch is the way", ["apply_patch"]),
        ("Run scripts/web_search.py or ./web_search", []),
        ("client.read_file(path)", []),
        ("web_search=true", []),
        ("```python\ndef read_file(path): ...\n```", []),
    ],
)
def test_a_name_with_underscores_counts_in_prose_and_not_in_programs_or_paths(body: str, found: list[str]) -> None:
    assert named(body) == found


@pytest.mark.parametrize("name", ["mcp__serena__find_symbol", "mcp__chrome-devtools__new_page"])
def test_an_mcp_tool_counts_and_a_pattern_of_tools_does_not(name: str) -> None:
    assert named(f"Use `{name}`.") == [name]
    assert named("Use mcp__serena__* or mcp__serena.") == []


def test_declared_tools_are_distinguished_from_those_of_the_body() -> None:
    mentions = mentioned_tools("Use the Read tool.", ("Bash(git add:*)", "Read", "MyOwn", "mcp__a__b"))
    assert [(mention.name, mention.in_body, mention.declared) for mention in mentions] == [
        ("Read", True, True),
        ("Bash", False, True),
        ("mcp__a__b", False, True),
    ]


def test_configured_names_are_found() -> None:
    assert named("Use deploy_it and the Ship tool.", own=("deploy_it", "Ship")) == ["deploy_it", "Ship"]


@pytest.mark.parametrize("name", ["functions.exec", "search/codebase", "#fetch", "@workspace", "fs:read", "2do"])
def test_configured_names_with_punctuation_are_found_literally(name: str) -> None:
    assert named(f"Call {name} now.", own=(name,)) == [name]
    assert named(f"Call `{name}`, then TodoWrite.", own=(name,)) == [name, "TodoWrite"]
    assert named(f"x{name} {name}x {name}-x\n```\n{name}\n```\n", own=(name,)) == []


def test_each_name_counts_once_in_the_order_of_the_body() -> None:
    assert named("TodoWrite, WebFetch, TodoWrite") == ["TodoWrite", "WebFetch"]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("Run scripts/run.py.", ["scripts/run.py"]),
        ("```sh\npython scripts/run.py --x\n```", ["scripts/run.py"]),
        ("See `./references/forms.md`.", ["references/forms.md"]),
        ("[forms](references/forms.md#top)", ["references/forms.md"]),
        ("[x](a%20b.md) and [y](<a b.md>) and `a b.md`", ["a b.md"]),
        ("`docs/übersicht.md`", ["docs/übersicht.md"]),
        ("scripts\\run.py on Windows", ["scripts/run.py"]),
        ("见forms.md", ["forms.md"]),
        ("@forms.md", ["forms.md"]),
        ("x/y/z.txt before scripts/run.py", ["x/y/z.txt", "scripts/run.py"]),
    ],
)
def test_a_path_of_the_skill_is_found_in_every_usual_form(body: str, found: list[str]) -> None:
    assert paths(body) == found


@pytest.mark.parametrize(
    "body",
    [
        "scripts/other.py",
        "Update README.md of the project, `README.md` that is.",
        "src/scripts/run.py",
        "/scripts/run.py",
        "../scripts/run.py",
        "https://example.com/pdf/scripts/run.py",
        "{project}/scripts/run.py",
        "$HOME/scripts/run.py",
        "myscripts/run.pyc",
    ],
)
def test_a_path_of_another_place_does_not_count(body: str) -> None:
    assert paths(body, "pdf") == []


@pytest.mark.parametrize(
    "folder",
    [
        "{baseDir}/",
        "${CLAUDE_SKILL_DIR}/",
        "$SKILL_DIR/",
        "<path-to-skill>/",
        "~/.claude/skills/pdf/",
        ".agents/skills/pdf/",
        "${CLAUDE_PLUGIN_ROOT}/skills/pdf/",
        "/path/to/skill/",
    ],
)
def test_every_usual_name_for_the_skills_folder_is_recognized(folder: str) -> None:
    found = mentioned_paths(f"python {folder}scripts/run.py", FILES, {"pdf"})
    assert found.paths == ("scripts/run.py",)
    assert found.folders == (folder,)


@pytest.mark.parametrize(
    ("body", "written"),
    [
        ("Read FORMS.md first.", "FORMS.md"),
        ("[f](Forms.md#top)", "Forms.md"),
        ("Run `{baseDir}/Scripts/Run.py`.", "Scripts/Run.py"),
        ("`MY Notes.md`", "MY Notes.md"),
    ],
)
def test_a_path_in_another_case_means_the_only_file_of_this_spelling(body: str, written: str) -> None:
    files = ["forms.md", "scripts/run.py", "my notes.md"]
    found = mentioned_paths(body, files)
    assert found.paths == (written.lower(),)
    (respelled,) = found.respelled
    assert respelled == Respelled(respelled.position, written, written.lower())
    assert body[respelled.position :].lstrip("/(<`").startswith(written)
    assert mentioned_paths(body.lower(), files).respelled == ()
    # Of two such files, none is meant.
    assert mentioned_paths(body, [*files, *(path.title() for path in files if path.title() != written)]).paths in {
        (),
        (written,),
    }


@pytest.mark.parametrize("body", ["Read readme.md.", "See `LICENSE.TXT`.", "From https://example.com/FORMS.md"])
def test_a_generic_name_or_another_place_in_another_case_does_not_count(body: str) -> None:
    assert mentioned_paths(body, ["README.md", "LICENSE.txt", "forms.md"]).paths == ()


def test_a_link_to_a_generic_name_counts() -> None:
    assert paths("[more](README.md)") == ["README.md"]


def test_fenced_code_is_blanked_and_other_text_keeps_its_position() -> None:
    text = "a `b`\n```py\ncode\n~~~\n```\nc\n   ~~~~\n```\n~~~~\nd ```inline``` e\n```\nopen"
    blank = without_fences(text)
    assert len(blank) == len(text)
    assert blank.split() == ["a", "`b`", "c", "d", "```inline```", "e"]


AWKWARD = st.lists(
    st.sampled_from([*"`*_~/\\.(){}<>[]$%@: \n", "Read", "Bash(", "mcp__", "tool", "a", "é", "forms.md"]), max_size=60
).map("".join)


@given(st.one_of(st.text(), AWKWARD))
def test_any_text_can_be_searched(body: str) -> None:
    for mention in mentioned_tools(body, (body[:80],), ("own_tool",)):
        assert mention.name in body
    assert set(mentioned_paths(body, FILES, {"a"}).paths) <= FILES


OWN_PREFIXES = (
    "{baseDir}/",
    "${CLAUDE_SKILL_DIR}/",
    "$skill_dir/",
    "SKILL_DIR/",
    "<path-to-skill>/",
    "a/pdf/",
    "/pdf/",
    "your-skill/",
)
OTHER_PREFIXES = ("../", "/", "src/", "base_dir/", "$", "${X}", "{project}/", "$HOME/", "https://host/pdf/", "pdf-2/")
FILE = st.from_regex(r"[a-z]{2,5}9(/[a-z]{2,5}9){0,2}\.[a-z]{2,3}", fullmatch=True)


@given(FILE, st.sampled_from(("", "./", "@")))
def test_a_relative_path_counts_and_names_no_folder(path: str, prefix: str) -> None:
    found = mentioned_paths(f"Run {prefix}{path}.", {path}, {"pdf"})
    assert (found.paths, found.folders) == ((path,), ())


@given(FILE, st.sampled_from(OWN_PREFIXES))
def test_a_path_below_the_skills_folder_counts_and_names_that_folder(path: str, prefix: str) -> None:
    found = mentioned_paths(f"Run {prefix}{path}.", {path}, {"pdf"})
    assert (found.paths, found.folders) == ((path,), (prefix,))


@given(FILE, st.sampled_from(OTHER_PREFIXES))
def test_a_path_below_another_folder_does_not_count(path: str, prefix: str) -> None:
    found = mentioned_paths(f"Run {prefix}{path}.", {path}, {"pdf"})
    assert (found.paths, found.folders) == ((), ())


@given(st.lists(FILE, unique=True, max_size=5))
def test_files_are_listed_in_the_order_of_their_first_mention(files: list[str]) -> None:
    body = " and ".join([*files, *reversed(files)])
    assert mentioned_paths(body, set(files)).paths == tuple(files)


@pytest.mark.parametrize(
    "body",
    ["`Grep` and `a` Read `b`", "```Read``` and `Grep`", "`Grep`\n`Read\n`", "Grep` Read `", "`Grep` and $Read`"],
)
def test_a_word_between_backticks_of_two_spans_is_no_code_span(body: str) -> None:
    assert "Read" not in named(body)


def test_words_are_found_alike_however_many_names_a_body_has() -> None:
    text = "Use the Read tool, the `grep` tool, `Glob`, Bash(git:*) and read_file. Do not read it. 使用Task tool"
    many = " ".join(f"mcp__server__tool_{number}" for number in range(200))
    assert [name for name in named(f"{text}\n{many}") if not name.startswith("mcp__")] == named(text)
    assert len(named(f"{text}\n{many}")) == len(named(text)) + 200


def test_files_are_found_alike_however_many_files_a_skill_has() -> None:
    text = "See scripts/run.py, `a B.md`, [u](docs/%C3%BCbersicht.md), `docs/ÜBERSICHT.md`, ./forms.md and x/y/z.txt."
    many = FILES | {f"more/{number}.md" for number in range(200)}
    assert mentioned_paths(text, many, ["pdf"]) == mentioned_paths(text, FILES, ["pdf"])


WORDS = (
    "AskUserQuestion",
    "WebFetch",
    "ask",
    "é",
    "中",
    "$",
    "-",
    "_",
    ".",
    " ",
    "\n",
    "`",
    "9",
    "\u2028",
    "ExitPlanMode",
)


@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_a_distinctive_name_counts_as_a_pattern_over_all_words_finds_it(body: str) -> None:
    prose = without_fences(body)
    found = {match[0] for text in (prose, body) for match in re.finditer(r"(?a)(?<![\w$-])[A-Za-z][\w-]*", text)}
    assert set(named(body)) == found & {"AskUserQuestion", "WebFetch", "ExitPlanMode"}


TOKENS = (
    "forms.md",
    "Forms.MD",
    "RUN.py",
    "scripts/run.py",
    "run.py",
    "/",
    "\\",
    ".",
    "%",
    "%2F",
    "é",
    " ",
    "`",
    "x",
    "@",
    "./",
    "](",
    ")",
    "\n",
)


@given(st.lists(st.sampled_from(TOKENS), max_size=30).map("".join))
def test_files_are_those_that_a_look_at_each_word_finds(body: str) -> None:
    # A skill with many files is searched word by word.
    many = FILES | {f"more/{number}.md" for number in range(100)}
    assert mentioned_paths(body, FILES, ["pdf"]) == mentioned_paths(body, many, ["pdf"])


COMMANDS = [
    "python {}",
    "python3.12 -u {} --in a.csv",
    "Then python {} input.pdf output/",
    "Run {} on the file.",
    "2. Execute the script `{}`.",
    "1. Check: `python {} a.json`",
    '```bash\nbash {} "$INPUT"\n```',
    "```\n$ uv run --with requests {} x\n```",
    "~~~sh\ndeno run --allow-read {}\n~~~",
    "Create the report with python {}.",
    "> Run `{}` and save the result.",
]


def missing(body: str, *names: str) -> list[tuple[str, bool]]:
    found = missing_scripts(body, FILES, names)
    return [(script.path, script.certain) for script in found]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_script_that_is_run_and_is_not_there_is_missing(command: str) -> None:
    assert missing(command.format("scripts/gone.py")) == [("scripts/gone.py", True)]
    assert missing(command.format("scripts/run.py")) == []
    assert missing(command.format("scripts/RUN.py")) == []
    without_folder = missing_scripts(command.format("scripts/gone.py"), {"SKILL.md"})
    assert [(script.path, script.certain) for script in without_folder] == [("scripts/gone.py", False)]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("{baseDir}/tools/gone.py", "x"),
        ("${CLAUDE_SKILL_DIR}/tools/gone.py", "x"),
        ("$SKILL_DIR/tools/gone.py", "x"),
        ("<path-to-skill>/tools/gone.py", "x"),
        ("~/.claude/skills/pdf/tools/gone.py", "pdf"),
        ("skills/pdf/tools/gone.py", "pdf"),
        (r"skills\pdf\tools\gone.py", "pdf"),
    ],
)
def test_a_script_below_what_means_the_skills_folder_is_certainly_its_own(path: str, name: str) -> None:
    assert missing(f"Run `python {path} a`.", name) == [("tools/gone.py", True)]


@pytest.mark.parametrize("command", ["./scripts/gone.sh --all", "$ ./scripts/gone.sh", "scripts/gone.sh"])
def test_a_script_that_is_a_command_itself_is_missing(command: str) -> None:
    assert missing(f"```sh\n{command}\n```") == [("scripts/gone.sh", True)]


@pytest.mark.parametrize(
    "body",
    [
        "python gone.py",
        "python src/gone.py",
        "python ../scripts/gone.py",
        "python /opt/scripts/gone.py",
        "python $HOME/scripts/gone.py",
        "python {project}/scripts/gone.py",
        "python ~/scripts/gone.py",
        "python https://example.org/scripts/gone.py",
        "python scripts/{name}.py",
        "python scripts/gone.pyc",
        "python scripts/your_script.py",
        "python scripts/script_name.py",
        "python scripts/gone.py, for example",
        "In your project, run `python scripts/gone.py`.",
        "If the target repository has tests, run scripts/gone.py",
        "Write the query to `scripts/gone.py`.\n\nThen run `python scripts/gone.py`.",
        "```sh\ncat > scripts/gone.py <<'EOF'\nprint(1)\nEOF\npython scripts/gone.py\n```",
        "```sh\ncurl -o scripts/gone.py https://example.org\npython scripts/gone.py\n```",
        "```sh\ncd checkout\npython scripts/gone.py\n```",
        "```markdown\nRun `python scripts/gone.py`.\n```",
        "The script scripts/gone.py is old.",
        "[scripts/gone.py](scripts/gone.py)",
    ],
)
def test_a_script_of_others_an_example_and_one_that_the_steps_make_are_not_missing(body: str) -> None:
    assert missing(body) == []


def test_where_a_repository_is_cloned_a_mere_scripts_folder_is_its_own() -> None:
    body = "```sh\ngit clone https://example.org/x\n```\n\n```sh\npython scripts/gone.py\n```\n"
    assert missing_scripts(body, {"SKILL.md"}) == ()
    assert missing(body) == [("scripts/gone.py", True)]


@given(st.text(alphabet="python run./scripts{}$`~<>-\n'\" ab", max_size=200))
def test_any_text_has_only_missing_scripts_that_it_names_and_the_skill_lacks(body: str) -> None:
    for script in missing_scripts(body, FILES, {"a"}):
        assert script.path not in FILES
        assert script.path.rpartition("/")[2] in body
