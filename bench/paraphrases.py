"""Measure the search by tasks in a user's words, which share no word with the name or description of the right skill.

`paraphrases.json` has two tasks for each skill of `queries.json` and each sample skill. Every second skill is held out:
its tasks are ranked with `--held-out` alone, which is for the end, after all that could be tuned. A task that shares a
stem with the name, the description, the triggers or the tags of its skill is an error.

With `--embeddings`, the default ranking is also merged with the similarities of the setting `search.embeddings`, by
their cosines and, for comparison, by places alone; `--model` names another model, or a folder with one.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ranking import HALVES, HERE, load, merged_rankings, word_rankings, write_labelled

from server.capabilities.embeddings.local_model import AVERAGING, load_model
from skills_core import EmbeddingReranker
from skills_core.selection.fulltext import Stems, query_words, texts_of
from skills_core.selection.fusion import SIMILARITY_WEIGHT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from skills_core import Match, Skill

    Rank = Callable[[str], list[Match]]

BOUNDS = (1, 3, 10)

_WORD = re.compile(r"[^\W_]+")


class Task(NamedTuple):
    """A task in a user's words, and the skill that is for it."""

    text: str
    skill: str


def main() -> None:
    """Print a row for each ranking: how often the right skill is the first, and among the first three and ten."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", action="store_true", help="rank the half that nothing may be tuned on")
    parser.add_argument("--embeddings", action="store_true", help="also rank with the model of search.embeddings_model")
    parser.add_argument("--model", default=AVERAGING, help="another model, or a folder with one")
    parser.add_argument("--misses", action="store_true", help="print the tasks whose skill is not the first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        labelled = json.loads((HERE / "queries.json").read_text(encoding="utf-8"))
        write_labelled(Path(folder), labelled["skills"])
        skills = load([Path(folder), HERE.parent / "sample_skills"])
        check_words(skills)
        asked = tasks(held_out=options.held_out)
        print(f"{len(skills)} skills, {len(asked)} tasks, half: {HALVES[options.held_out]}")
        rankings = word_rankings(skills)
        if options.embeddings:
            reranker = EmbeddingReranker(load_model(options.model).encode, "bench", seconds=None)
            reranker.warm(skills)
            rankings |= merged_rankings(skills, reranker, [SIMILARITY_WEIGHT])
        for name, rank in rankings.items():
            print_row(name, rank, asked, misses=options.misses)


def tasks(*, held_out: bool) -> list[Task]:
    """Return the tasks of one half; skills alternate between the halves as they do in `ranking.py`."""
    entries = json.loads((HERE / "paraphrases.json").read_text(encoding="utf-8"))
    return [Task(text, each["skill"]) for each in entries[held_out :: len(HALVES)] for text in each["tasks"]]


def check_words(skills: Sequence[Skill]) -> None:
    """Fail if a task of either half shares a stem with the front of its skill."""
    by_name = {skill.name: skill for skill in skills}
    stems = Stems()
    for task in (*tasks(held_out=False), *tasks(held_out=True)):
        front = " ".join(texts_of(by_name[task.skill].content)[:-1])
        own = {*stems.of(_WORD.findall(front)).values()}
        shared = [word for word, stem in stems.of(query_words(task.text)).items() if stem in own]
        if shared:
            raise SystemExit(f"{task.text!r} shares {', '.join(shared)} with {task.skill}")


def print_row(name: str, rank: Rank, asked: Sequence[Task], *, misses: bool) -> None:
    """Print how often the right skill is among the first ones."""
    answers = [(task, rank(task.text)) for task in asked]
    places = [_place(task, found) for task, found in answers]
    shares = (sum(0 < place <= bound for place in places) / len(places) for bound in BOUNDS)
    print(f"{name:12}", *(f"top {bound} {share:6.1%}" for bound, share in zip(BOUNDS, shares, strict=True)))
    if misses:
        for line in _misses(answers):
            print(line)


def _place(task: Task, found: Sequence[Match]) -> int:
    """Return the rank of the right skill, from 1; 0 if it was not found."""
    return next((place for place, match in enumerate(found, 1) if match.skill.name == task.skill), 0)


def _misses(answers: Sequence[tuple[Task, list[Match]]]) -> Iterator[str]:
    for task, found in answers:
        if (place := _place(task, found)) != 1:
            yield f"  {task.skill} at {place}: {task.text!r}; first {[match.skill.name for match in found[:3]]}"


if __name__ == "__main__":
    main()
