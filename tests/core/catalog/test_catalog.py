from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skills_core import Environment, UnknownFileError, UnknownSkillError, explicit_sources
from skills_core.live.library import load_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from skills_core import Catalog, Library


@pytest.fixture
def catalog(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    write_skill(tmp_path, "pdf-processing", files={"references/forms.md": "F", "a b#c.txt": "odd"})
    write_skill(tmp_path, "pdf-processing/nested", files={"data.txt": "N"})
    write_skill(tmp_path, "x/refunds")
    write_skill(tmp_path, "y/refunds")
    write_skill(tmp_path, "windows-only", fields="when:\n  os: windows")
    write_skill(tmp_path, "broken", description="''")
    return load(tmp_path).catalog


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("pdf-processing", "pdf-processing"),
        ("skill://pdf-processing/SKILL.md", "pdf-processing"),
        ("skill://pdf%2Dprocessing/SKILL%2Emd", "pdf-processing"),
        ("nested", "pdf-processing/nested"),
        ("pdf-processing/nested", "pdf-processing/nested"),
        ("skill://pdf-processing/nested/SKILL.md", "pdf-processing/nested"),
        ("x/refunds", "x/refunds"),
        ("skill://y/refunds/SKILL.md", "y/refunds"),
    ],
)
def test_a_skill_is_found_by_key_path_and_uri(catalog: Catalog, name: str, path: str) -> None:
    assert catalog.skill(name).path == path


@pytest.mark.parametrize(
    "name",
    [
        "",
        "refunds",
        "windows-only",
        "broken",
        "PDF-Processing",
        "skill://pdf-processing/",
        "skill://",
        "x" * 100000,
        "skill://pdf-processing/references/forms.md",
        "skill://absent/SKILL.md",
        "pdf-processing/",
        "../x",
    ],
)
def test_a_name_without_an_active_skill_is_unknown(catalog: Catalog, name: str) -> None:
    with pytest.raises(UnknownSkillError) as caught:
        catalog.skill(name)
    assert caught.value.name == name
    assert len(str(caught.value)) < 1000


def test_the_error_for_an_unknown_skill_suggests_similar_names(catalog: Catalog) -> None:
    with pytest.raises(UnknownSkillError, match=r"Did you mean 'pdf-processing'") as caught:
        catalog.skill("pdf-procesing")
    assert caught.value.similar[0] == "pdf-processing"


def test_the_error_for_an_unknown_skill_suggests_nothing_dissimilar(catalog: Catalog) -> None:
    with pytest.raises(UnknownSkillError) as caught:
        catalog.skill("qqqqqqqq")
    assert caught.value.similar == ()
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("path", ["references/forms.md", "./references/forms.md", "SKILL.md", "a b#c.txt"])
def test_a_file_is_found_by_its_path(catalog: Catalog, path: str) -> None:
    assert catalog.file_of(catalog.skill("pdf-processing"), path).path == path.removeprefix("./")


@pytest.mark.parametrize(
    "path",
    [
        "",
        ".",
        "..",
        "/etc/passwd",
        "../x/refunds/SKILL.md",
        "references",
        "references/",
        "references/../SKILL.md",
        "references//forms.md",
        "references\\forms.md",
        "SKILL.md\x00",
        "././SKILL.md",
        "x" * 100000,
    ],
)
def test_a_path_without_a_file_of_the_skill_is_unknown(catalog: Catalog, path: str) -> None:
    with pytest.raises(UnknownFileError) as caught:
        catalog.file_of(catalog.skill("pdf-processing"), path)
    assert (caught.value.skill, caught.value.path) == ("pdf-processing", path)
    assert len(str(caught.value)) < 1000


@pytest.fixture
def spelled(tmp_path: Path, write_skill: Callable[..., Path], load: Callable[..., Library]) -> Catalog:
    """Return a catalog with a skill whose files are spelled otherwise than authors write them, and one nested in it."""
    files = {"forms.md": "f", "Docs/Guide.md": "g", "docs/other.md": "o", "evals/evals.json": "{}"}
    if case_matters(tmp_path):
        files |= {"TWO.md": "1", "Two.md": "2"}
    write_skill(tmp_path, "pdf", files=files)
    write_skill(tmp_path, "pdf/inner", files={"notes.md": "n"})
    return load(tmp_path).catalog


def case_matters(folder: Path) -> bool:
    (folder / "probe").touch()
    return not (folder / "PROBE").exists()


@pytest.mark.parametrize(
    ("asked", "served"),
    [
        ("FORMS.md", "forms.md"),
        ("./Forms.MD", "forms.md"),
        ("docs/guide.md", "Docs/Guide.md"),
        ("DOCS/OTHER.md", "docs/other.md"),
        ("skill.md", "SKILL.md"),
        ("INNER/notes.md", "inner/notes.md"),
        ("EVALS/evals.json", "evals/evals.json"),
    ],
)
def test_a_path_means_the_only_file_that_differs_from_it_in_case_alone(
    asked: str, served: str, spelled: Catalog
) -> None:
    pdf = spelled.skill("pdf")
    assert spelled.file_of(pdf, asked).path == served
    found = spelled.file(pdf.file_uri(asked.removeprefix("./")))
    assert found is not None
    assert found[0].file_uri(found[1].path) == pdf.file_uri(served)
    # The right spelling may lead into a nested skill, whose rules then hold.
    assert found[0].key == ("inner" if served.startswith("inner/") else "pdf")


def test_of_two_files_that_differ_in_case_alone_no_third_spelling_means_one(spelled: Catalog, tmp_path: Path) -> None:
    if not case_matters(tmp_path):
        pytest.skip("this file system has no such two names")
    pdf = spelled.skill("pdf")
    assert [spelled.file_of(pdf, path).path for path in ("TWO.md", "Two.md")] == ["TWO.md", "Two.md"]
    assert spelled.file("skill://pdf/two.md") is None
    with pytest.raises(UnknownFileError, match=r"Did you mean 'TWO.md' or 'Two.md'\?"):
        spelled.file_of(pdf, "two.md")


def test_a_folder_is_found_in_another_case_and_named_as_it_is(spelled: Catalog) -> None:
    found = spelled.directory("skill://pdf/INNER")
    assert found is not None
    assert (found.path, list(found.children)) == ("pdf/inner", ["SKILL.md", "notes.md"])
    assert spelled.directory("skill://PDF") is None


def test_an_unknown_file_is_answered_with_similar_ones_but_never_with_eval_files(spelled: Catalog) -> None:
    assert spelled.similar_files("skill://pdf/form.md")[0] == "skill://pdf/forms.md"
    assert spelled.similar_files("skill://pdf/references/forms.md") == ("skill://pdf/forms.md",)
    assert spelled.similar_files("skill://pdf/evals/evals.jso") == ()
    assert spelled.similar_files("skill://none/forms.md") == ()


def test_the_error_for_an_unknown_file_suggests_similar_paths(catalog: Catalog) -> None:
    with pytest.raises(UnknownFileError, match=r"Did you mean 'references/forms.md'"):
        catalog.file_of(catalog.skill("pdf-processing"), "reference/forms.md")


def test_every_uri_of_a_catalog_names_a_file_with_its_digest(catalog: Catalog) -> None:
    for skill in catalog.active:
        for path, file in skill.content.files.items():
            found = catalog.file(skill.file_uri(path))
            assert found is not None
            assert (found[1].digest, found[1].size) == (file.digest, file.size)


def test_a_file_of_a_nested_skill_belongs_to_the_innermost_skill(catalog: Catalog) -> None:
    found = catalog.file("skill://pdf-processing/nested/data.txt")
    assert found is not None
    assert (found[0].name, found[1].path) == ("nested", "data.txt")


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "skill://",
        "skill://pdf-processing",
        "skill://pdf-processing/",
        "skill://pdf-processing/absent",
        "skill://pdf-processing/references",
        "skill://pdf-processing/references/forms.md/x",
        "skill://pdf-processing/../x/refunds/SKILL.md",
        "skill://pdf-processing/%2e%2e/x/refunds/SKILL.md",
        "skill://pdf-processing/references%2Fforms.md",
        "skill://windows-only/SKILL.md",
        "skill://broken/SKILL.md",
        "skill://refunds/SKILL.md",
        "file:///pdf-processing/SKILL.md",
        "skill://" + "a/" * 1000 + "SKILL.md",
        "skill://pdf-processing/" + "references/" * 1000 + "forms.md",
        "skill://" + "a" * 100_000,
    ],
)
def test_a_uri_without_a_served_file_finds_none(catalog: Catalog, uri: str) -> None:
    assert catalog.file(uri) is None


def test_lookups_in_an_empty_catalog_find_nothing(tmp_path: Path, load: Callable[..., Library]) -> None:
    catalog = load(tmp_path).catalog
    assert (catalog.skills, catalog.active, catalog.problems) == ((), (), ())
    assert catalog.file("skill://a/SKILL.md") is None
    with pytest.raises(UnknownSkillError):
        catalog.skill("a")


def test_a_catalog_shows_how_many_skills_it_has_in_each_state(catalog: Catalog) -> None:
    assert repr(catalog) == "<Catalog 4 active, 1 excluded, 1 invalid>"


def test_load_catalog_decides_as_a_library_does_and_reads_only_main_files(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.\n", encoding="utf-8")
    environment = Environment(os="linux", has_bin=lambda _: True)
    light = load_catalog(explicit_sources([tmp_path]), environment)
    assert [(s.key, s.state, s.reason, s.digest) for s in light.skills if s.name != "agents"] == [
        (s.key, s.state, s.reason, s.digest) for s in catalog.skills
    ]
    assert {path for skill in light.skills for path in skill.content.files} == {"SKILL.md", "AGENTS.md"}
