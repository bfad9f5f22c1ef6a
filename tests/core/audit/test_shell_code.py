from __future__ import annotations

import pytest

from skills_core.audit.code.shell_code import pipelines_in


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
