"""Compare the two rankings of skills on labelled queries, and time the default one.

`queries.json` has skills that exist only for this benchmark. These, the sample skills and some public skills have two
queries each: an explicit one, which names what the skill does, and an indirect one in a user's own words. Queries for
public skills are used if `--among` names their folder. Further queries match no skill; near-misses have the words of a
wrong skill. Every second skill and its queries are held out: the rankings must not be tuned on them.

With `--reranker MODULE:NAME`, which names a function as the setting `search.reranker` does, the default ranking is also
merged with its similarities, by each of the `--weights` and, for comparison, by places alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import OBJECTS, VERBS, skill_name, write_corpus

from server.hosting.searches import load_reranker
from skills_core import Environment, Library, SelectionPolicy, Similarities, SkillIndex, SkillSearch, explicit_sources
from skills_core.selection.fusion import SIMILARITY_WEIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from skills_core import Match, Reranker, Skill

    Rank = Callable[[str], list[Match]]

HERE = Path(__file__).parent
HALVES = ("tuning", "held out")
KINDS = ("explicit", "indirect")
FIRST = 5
TIMED = 200
EDITS = 20


@dataclass(frozen=True)
class Query:
    """A text, the name of the right skill, the kind of the query, and its half of the data."""

    text: str
    skill: str
    kind: str
    half: str


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--among", type=Path, nargs="*", default=[], help="folders of further skills to search")
    parser.add_argument(
        "--skills", type=int, default=10_000, help="generated skills for the timings; 0 skips the timings"
    )
    parser.add_argument("--reranker", metavar="MODULE:NAME", help="a function that returns similarities")
    parser.add_argument("--weights", type=float, nargs="+", default=[SIMILARITY_WEIGHT], help="weights of its cosines")
    parser.add_argument("--misses", action="store_true", help="print the failed queries of the first half")
    options = parser.parse_args()
    labelled = json.loads((HERE / "queries.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        write_labelled(Path(folder), labelled["skills"])
        skills = load([Path(folder), HERE.parent / "sample_skills", *options.among])
        rankings = word_rankings(skills)
        if (reranker := load_reranker(options.reranker)) is not None:
            rankings |= merged_rankings(skills, reranker, options.weights)
        print_quality(skills, labelled, rankings, misses=options.misses)
    if options.skills:
        with tempfile.TemporaryDirectory() as folder:
            write_corpus(Path(folder) / "skills", options.skills)
            print_times(Path(folder) / "skills")


def queries(labelled: Mapping[str, Any], present: Container[str]) -> Iterable[Query]:
    """Yield the labelled queries for the skills that are present; skills alternate between the halves."""
    for number, skill in enumerate(labelled["skills"] + labelled["samples"] + labelled["elsewhere"]):
        if skill["name"] in present:
            for kind in KINDS:
                yield Query(skill[kind], skill["name"], kind, HALVES[number % 2])


def write_labelled(root: Path, skills: Sequence[dict[str, object]]) -> None:
    """Write the skills as folders, with JSON values as YAML."""
    for skill in skills:
        folder = root / str(skill["name"])
        folder.mkdir()
        front = "\n".join(f"{key}: {json.dumps(skill[key])}" for key in ("name", "description", "tags"))
        (folder / "SKILL.md").write_text(f"---\n{front}\n---\n{skill['body']}\n", encoding="utf-8")


def load(roots: Sequence[Path]) -> tuple[Skill, ...]:
    """Return all skills that are active on a machine that meets every requirement."""
    return library(roots).catalog.active


def library(roots: Sequence[Path]) -> Library:
    """Load folders as explicit sources."""
    return Library(explicit_sources(roots), lambda: Environment(os="windows", has_bin=lambda _: True))


def word_rankings(skills: tuple[Skill, ...]) -> dict[str, Rank]:
    """Return the rankings by words alone."""
    index = SkillIndex().extended(skills)
    return {
        "lexical": lambda query: index.select(query, SelectionPolicy(len(skills), 0.001)),
        "default": _ranking(skills, SkillSearch()),
    }


def merged_rankings(skills: tuple[Skill, ...], reranker: Reranker, weights: Sequence[float]) -> dict[str, Rank]:
    """Return the default ranking merged with the cosines of a reranker, by places and with each weight."""

    def similarities(query: str, given: Sequence[Skill]) -> Similarities:
        answer = reranker(query, given)
        if not isinstance(answer, Similarities):
            raise SystemExit("the reranker returned an order; expected Similarities")
        return answer

    def by_places(query: str, given: Sequence[Skill]) -> list[Skill]:
        return [skill for skill, _ in sorted(similarities(query, given).cosines, key=lambda pair: -pair[1])]

    def weighted(weight: float) -> Reranker:
        return lambda query, given: replace(similarities(query, given), weight=weight)

    known = 0
    # A reranker may compute the vectors of a large library in several calls.
    while known < (known := len([*similarities("", skills).cosines])):
        pass
    print(f"the reranker knows {known} of {len(skills)} skills")
    rerankers: dict[str, Reranker] = {"+ places": by_places, **{f"+ {each:g} cos": weighted(each) for each in weights}}
    return {name: _ranking(skills, SkillSearch(each)) for name, each in rerankers.items()}


def _ranking(skills: tuple[Skill, ...], search: SkillSearch) -> Rank:
    return lambda query: search.select(skills, query, SelectionPolicy(len(skills), 0.0))


def print_quality(
    skills: tuple[Skill, ...], labelled: Mapping[str, Any], rankings: Mapping[str, Rank], *, misses: bool
) -> None:
    """Print how high each ranking places the right skill, and how often a wrong one."""
    asked = list(queries(labelled, {skill.name for skill in skills}))
    print(f"{len(skills)} skills, {len(asked)} queries\n")
    print(f"{'ranking':9} {'half':9} {'kind':9} {'n':>3} {'recall@1':>9} {'recall@5':>9} {'MRR':>6} {'weak':>5}")
    for name, rank in rankings.items():
        for half in HALVES:
            for kind in KINDS:
                _print_row(name, half, kind, [(q, rank(q.text)) for q in asked if (q.half, q.kind) == (half, kind)])
        for number, half in enumerate(HALVES):
            _print_wrong(name, half, rank, *(labelled[key][number :: len(HALVES)] for key in ("nothing", "near")))
        print()
        if misses:
            _print_misses([(q, rank(q.text)) for q in asked if q.half == HALVES[0]])


def _place(query: Query, found: Sequence[Match]) -> int:
    """Return the rank of the right skill, from 1; 0 if it was not found."""
    return next((place for place, match in enumerate(found, 1) if match.skill.name == query.skill), 0)


def _print_row(name: str, half: str, kind: str, answers: Sequence[tuple[Query, list[Match]]]) -> None:
    places = [_place(query, found) for query, found in answers]
    first, among = (sum(0 < place <= bound for place in places) / len(places) for bound in (1, FIRST))
    rank = sum(1 / place for place in places if place) / len(places)
    weak = sum(found[place - 1].weak for place, (_, found) in zip(places, answers, strict=True) if place)
    print(f"{name:9} {half:9} {kind:9} {len(places):3} {first:9.1%} {among:9.1%} {rank:6.3f} {weak:5}")


def _print_wrong(name: str, half: str, rank: Rank, nothing: Sequence[str], near: Sequence[Mapping[str, str]]) -> None:
    """Print how often a wrong skill is not marked weak, and how often near-misses rank the wrong skill first."""
    firm = sum(any(not match.weak for match in rank(text)) for text in nothing)
    print(f"{name:9} {half:9} no skill for it: {firm} of {len(nothing)} have a match that is not marked weak")
    lured = [found[0] for query in near if (found := rank(query["text"])) and found[0].skill.name == query["not"]]
    meant = [query for query in near if "skill" in query]
    right = sum(_place(Query(query["text"], query["skill"], "", ""), rank(query["text"])) == 1 for query in meant)
    unmarked = sum(not match.weak for match in lured)
    print(
        f"{name:9} {half:9} near-misses: the wrong skill is first in {len(lured)} of {len(near)}, {unmarked} of them "
        f"not marked weak; the right one, where there is one, in {right} of {len(meant)}"
    )


def _print_misses(answers: Sequence[tuple[Query, list[Match]]]) -> None:
    for query, found in answers:
        place = _place(query, found)
        if place != 1:
            print(f"  {query.skill} at {place}: {query.text!r}; first {[match.skill.name for match in found[:3]]}")
    print()


def print_times(root: Path) -> None:
    """Print the times of queries and of index updates after edits."""
    served = library([root])
    search, index = SkillSearch(), SkillIndex()
    skills = served.catalog.offered
    print(f"{len(skills)} generated skills")
    print(f"  build the index: {_timed(lambda: search.select(skills, '')):.0f} ms")
    index = index.extended(skills)
    texts = [
        f"please help me to {VERBS[turn % len(VERBS)]} the {OBJECTS[turn % len(OBJECTS)]} of row {turn} in a table"
        for turn in range(TIMED)
    ]
    _print_times("query, default", [_timed(lambda text=text: search.select(skills, text)) for text in texts])  # type: ignore[misc]
    policy = SelectionPolicy(10, 0.001)
    _print_times("query, lexical", [_timed(lambda text=text: index.select(text, policy)) for text in texts[:EDITS]])  # type: ignore[misc]
    edits = []
    for number in range(EDITS):
        path = root / skill_name(number) / "SKILL.md"
        path.write_text(path.read_text(encoding="utf-8") + f"zebra{number}\n", encoding="utf-8")
        served.reload([path])
        changed = served.catalog.offered
        edits.append(_timed(lambda changed=changed: search.select(changed, "")))  # type: ignore[misc]
        (found,) = search.select(changed, f"zebra{number}")
        if found.skill.name != skill_name(number):
            raise SystemExit(
                f"the index was not updated after an edit of {skill_name(number)}; it found {found.skill.name}"
            )
    _print_times("update after an edit", edits)


def _timed(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return (time.perf_counter() - start) * 1000


def _print_times(what: str, times: Sequence[float]) -> None:
    high = statistics.quantiles(times, n=20)[-1]
    print(f"  {what}: p50 {statistics.median(times):.1f} ms, p95 {high:.1f} ms")


if __name__ == "__main__":
    main()
