"""Python and shell commands as the rules read them."""

from __future__ import annotations

import ast

import pytest

from skills_core.audit.code_parsers import UNKNOWN, PythonCode, parsed_python, pipelines_in


def parsed(text: str) -> PythonCode:
    code = parsed_python(text)
    assert code is not None
    return code


def text_of(text: str) -> str | None:
    code = parsed(text)
    last = code.tree.body[-1]
    assert isinstance(last, ast.Expr)
    return code.text_of(last.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'a' + 'b'", "ab"),
        ("f'a{1}b'", f"a{UNKNOWN}b"),
        ("x = '~/.aws'\nx + '/credentials'", "~/.aws/credentials"),
        ("from pathlib import Path as P\nP.home() / '.ssh' / 'id_rsa'", "~/.ssh/id_rsa"),
        ("import os\nos.path.join(os.environ['HOME'], '.npmrc')", "~/.npmrc"),
        ("import os\nos.path.expanduser('~/.netrc')", "~/.netrc"),
        ("for p in ['a', 'b']:\n    pass\np", "a\nb"),
        ("from pathlib import Path\nPath('a').joinpath('b', 'c')", "a/b/c"),
        ("'%s.txt' % name", "%s.txt"),
        ("unknown", None),
        ("x = x + 'a'\nx", f"{UNKNOWN}a"),
    ],
)
def test_an_expression_stands_for_a_text(text: str, expected: str | None) -> None:
    assert text_of(text) == expected


def test_a_call_has_the_full_name_of_what_was_imported() -> None:
    code = parsed("import subprocess as s\nfrom os import system as go\ns.run('a')\ngo('b')\nPath('c').open()")
    assert {name for name, _ in code.calls} == {"subprocess.run", "os.system", "Path", ".open"}


def test_a_position_counts_characters_and_not_bytes() -> None:
    text = "x = 'ä'; y = open('b')\r\nz = open('c')"
    code = parsed(text)
    assert sorted(code.position(call) for _, call in code.calls) == [text.index("open('b')"), text.index("open('c')")]


@pytest.mark.parametrize(
    "text",
    ["print 'a'", "\0", "(" * 10_000, "-" * 100_000 + "1", "a." * 100_000 + "a", "[" * 200, "def f(:", "\ud800"],
)
def test_what_cannot_be_parsed_is_no_program(text: str) -> None:
    assert parsed_python(text) is None or isinstance(parsed_python(text), PythonCode)


def test_invalid_escapes_warn_nobody() -> None:
    assert parsed_python("'\\d'") is not None


def test_texts_that_double_and_names_that_repeat_stay_bounded() -> None:
    lines = ["a0 = 'x' * 9 + 'y'", *(f"a{number} = a{number - 1} + a{number - 1}" for number in range(1, 60))]
    code = parsed("\n".join([*lines, *(f"b = f'{{b}}{{b}}{number}'" for number in range(200))]))
    assert all(len(code.text_of(value) or "") < 10_000 for values in code.values.values() for value in values)


def test_names_that_stand_alone_are_nodes_and_constants_are_none() -> None:
    code = parsed_python("from os import environ\nx = [environ, 1, 'a']\n")
    assert code is not None
    names = [type(node).__name__ for node in code.nodes]
    assert "Name" in names
    assert "Constant" not in names


def commands(text: str) -> list[list[list[str]]]:
    return [[[word.text for word in command.words] for command in each.commands] for each in pipelines_in(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b | c", [[["a", "b"], ["c"]]]),
        ("a && b; c & d", [[["a"]], [["b"]], [["c"]], [["d"]]]),
        ("a \\\n  b", [[["a", "b"]]]),
        ("a 'b | c' \"d e\"f", [[["a", "b | c", "d ef"]]]),
        ("a # b | c\nd", [[["a"]], [["d"]]]),
        ("sudo X=1 env Y=2 a b", [[["a", "b"]]]),
        ("if a; then b; fi", [[["a"]], [["b"]], [["fi"]]]),
        ("env", [[["env"]]]),
        ('a "$(b c)"', [[["b", "c"], ["a", "$(b c)"]]]),
        ("a `b`", [[["b"], ["a", "`b`"]]]),
        ("a <(b)", [[["b"], ["a", "<(b)"]]]),
        ("a '$(b)'", [[["a", "$(b)"]]]),
        ("(a; b) | c", [[["a"]], [["b"]], [["c"]]]),
        ("a 2>/dev/null", [[["a"]]]),
        ("a <<END\nb | c\nEND\nd", [[["a"]], [["d"]]]),
    ],
)
def test_a_shell_would_read_these_commands(text: str, expected: list[list[list[str]]]) -> None:
    assert commands(text) == expected


def test_redirections_are_the_files_that_a_command_writes_and_reads() -> None:
    ((command,),) = (each.commands for each in pipelines_in("a >> ~/b 2>&1 < 'c d'"))
    assert [word.text for word in command.written] == ["~/b", "1"]
    assert [word.text for word in command.read] == ["c d"]


def test_a_word_knows_where_it_stands() -> None:
    text = "a;\n  b 'c'"
    last = pipelines_in(text, 100)[-1].commands[0]
    assert [word.start - 100 for word in last.words] == [text.index("b"), text.index("'c'")]


@pytest.mark.parametrize("piece", ['"$(', "$(", '"\\', "`", "<(", "'\"$()", '"$()', "(", "<<a\n", "if ", "${"])
def test_a_text_without_ends_is_read_in_one_pass(piece: str) -> None:
    assert isinstance(pipelines_in(piece * 50_000), tuple)
