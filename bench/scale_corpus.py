"""Generate a corpus as large registries have it: any number of skills, the same bytes on every run and machine.

    .venv/bin/python bench/scale_corpus.py FOLDER --skills 100000
    .venv/bin/python bench/scale_corpus.py FOLDER --skills 1000000 --few-files --sources 3

Skills lie two levels deep, `owner/skill`. A SKILL.md has a body of 2 to 6 KB; 0 to 10 files are beside it, four on
average: most small, a few of 20 KB and more. 46 % are near-twins: forks of an earlier skill with a name of their own,
with a few other words and lines, or with nothing but another name and description. Words follow Zipf's law, and every
skill has topics, so searches have something to tell apart. Skill number i depends only on i, so a small corpus is a
prefix of a large one, and any number of processes writes the same.

With `--few-files`, nine skills in ten are a SKILL.md alone and the others have one file beside it, and bodies draw
their sentences from a stock of 3,000 a topic: a million takes less than half of the time, of the disk and of the
inodes. The sizes of a SKILL.md and the twins are the same. With `--sources 3`, the owners' folders are shared out over
the folders 1, 2 and 3: a server reads 500,000 folders of one source at most.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TWINS = 0.46
# Of the twins: those whose body is that of the original, byte for byte, and those that change a bundled file.
SAME_BODY, OTHER_FILE = 0.35, 0.3
OWNERS = 4000
# How often skills have 0, 1, … 10 bundled files; 4.2 on average.
FILE_COUNTS = (18, 8, 9, 10, 10, 10, 9, 8, 7, 6, 5)
FEW_FILE_COUNTS = (90, 10)
STOCK = 3000
# The sizes of bundled files are log-normal: a median of 1.6 KB, one in forty of 20 KB and more.
MEDIAN_SIZE, SPREAD, LARGEST = 1600, 1.3, 120_000
CHUNK = 250

_VERBS = (
    "audit build clean compare convert debug deploy design draft explain extract forecast generate grade import index "
    "label merge migrate monitor optimize plan profile publish refactor review schedule secure summarize test "
    "transcribe translate triage tune validate visualize"
)
# A topic a line: its name first, then its terms.
_TOPICS = """
kubernetes cluster pod helm chart namespace ingress rollout replica node kubelet manifest sidecar operator probe
terraform module provider state drift workspace backend resource variable plan apply destroy registry stack
postgres query index vacuum table schema migration trigger partition replica explain lock transaction column
spreadsheet cell formula pivot workbook sheet range column chart filter macro currency rounding total
pdf form field page annotation signature outline merge watermark scan ocr attachment font bookmark
invoice vendor amount tax due payment ledger discount purchase receipt currency remittance credit reminder
contract clause party liability term renewal indemnity notice amendment signature jurisdiction breach warranty
security vulnerability cve exploit scanner patch threat token secret rotation permission advisory injection
python package import pytest typing decorator async generator wheel virtualenv traceback dataclass lint
react component hook props render state suspense router effect context memo bundle hydration
accessibility contrast aria keyboard focus reader landmark label heading caption alternative tab order
git branch commit rebase merge conflict tag remote stash bisect hook submodule cherry history
docker image layer container registry volume entrypoint build cache multi-stage healthcheck compose network
email subject recipient thread reply newsletter campaign bounce template greeting signature attachment unsubscribe
meeting agenda minutes decision action attendee calendar recap owner deadline transcript standup retrospective
music chord tempo melody rhythm harmony score track mix stem key sampler drum
recipe ingredient oven serving portion allergen simmer dough seasoning menu substitute protein garnish
travel itinerary flight hotel visa budget transfer luggage museum booking layover passport route
genomics sequence variant read alignment reference gene exon assembly coverage genotype primer annotation
chemistry molecule reaction solvent titration spectrum yield catalyst compound reagent polymer isotope bond
statistics regression sample variance outlier median hypothesis confidence interval bootstrap distribution bias test
machine-learning model training dataset feature label epoch loss gradient embedding checkpoint inference tokenizer
finance portfolio asset risk return hedge dividend bond equity volatility benchmark allocation liquidity
marketing audience funnel keyword persona conversion landing brand campaign segment attribution banner copy
legal statute filing court evidence deposition counsel plaintiff hearing precedent brief motion appeal
translation glossary locale string plural idiom source target tone segment memory placeholder reviewer
logging trace span metric alert dashboard incident severity pager latency threshold percentile sampling
mobile android gradle screen gesture intent push permission store emulator orientation widget battery
ios swift storyboard simulator entitlement keychain archive provisioning delegate scene widget haptics binding
game sprite level collision shader physics inventory quest spawn camera tilemap score controller
education lesson quiz rubric student curriculum homework assessment exercise lecture syllabus grading feedback
healthcare patient diagnosis dosage chart symptom referral consent triage allergy discharge clinic coding
real-estate listing lease tenant mortgage appraisal zoning inspection deposit escrow floorplan broker valuation
logistics shipment warehouse carrier pallet tracking customs route freight inventory delivery manifest dock
hiring candidate interview resume offer role screening sourcing scorecard reference onboarding salary panel
writing paragraph tone headline outline draft citation narrative chapter editor plot voice revision
photography exposure lens aperture raw histogram crop retouch preset shutter tripod contrast white-balance
video caption timeline codec bitrate frame subtitle cut transition storyboard thumbnail render voiceover
audio podcast transcript noise waveform loudness episode speaker silence chapter equalizer microphone interview
blockchain wallet contract gas ledger token bridge validator block signature oracle staking audit
networking subnet firewall dns packet route proxy gateway certificate vlan latency bandwidth handshake
api endpoint schema payload version pagination webhook throttle header status contract client mock
robotics actuator sensor joint planner odometry gripper calibration torque trajectory lidar controller firmware
embedded firmware interrupt register flash bootloader peripheral bus timer toolchain debugger voltage pin
geospatial raster layer projection tile polygon coordinate elevation satellite boundary buffer shapefile basemap
energy inverter panel grid load tariff turbine battery forecast meter emission peak storage
agriculture soil crop irrigation yield harvest pest fertilizer greenhouse moisture seed livestock rotation
support ticket customer escalation refund macro queue reply satisfaction outage workaround bug knowledge
product roadmap feature backlog story persona launch metric priority release estimate stakeholder discovery
"""
_COMMON = (
    "the a of and to in is for with that on as it by this be or from are at an not when each use file if then all "
    "which must before after first only value output input name check list read write run line add one step result "
    "given error new text data format default option user report example keep set number record missing ask valid "
    "change item match more than into same order section other next source empty confirm show path folder script "
    "template reference command tool note limit unit group date version never always explicit compare return split "
    "join sort skip retry verify approve measure collect summary detail target rename restore warning complete draft"
)
_SYLLABLES = "ba cor den fal gri hu jor ka lin mo nex or pla qui ras sol tri un ver wy xan yor zen mir tek lo"
VERBS, COMMON, SYLLABLES = _VERBS.split(), _COMMON.split(), _SYLLABLES.split()
TOPICS = [line.split() for line in _TOPICS.split("\n") if line]
RARE_WORDS = 30_000
LICENSES = ("Apache-2.0", "MIT", "MIT", "BSD-3-Clause", "CC-BY-4.0", None)
TOOLS = ("Read Grep Glob", "Bash(git:*) Read Write", "Read Write Edit", "Bash(jq:*) Read", None, None)
KINDS = (
    "references/{}.md",
    "references/{}.md",
    "scripts/{}.py",
    "scripts/{}.py",
    "scripts/{}.sh",
    "assets/{}.json",
    "assets/{}.csv",
    "assets/{}.html",
    "examples/{}.yaml",
    "assets/{}.png",
)


class Draft(NamedTuple):
    """A skill before it is written: the words of its topics, its texts and its bundled files by path."""

    topics: tuple[int, ...]
    title: str
    description: str
    body: str
    files: Mapping[str, bytes]


def write_scale_corpus(
    root: Path, count: int, *, processes: int | None = None, few_files: bool = False, sources: int = 1
) -> None:
    """Write skills 0 to `count` - 1 below the new folder `root`, with as many processes as there are processors.

    With several `sources`, each owner's folder is in one of the folders 1 to `sources` of the root.
    """
    root.mkdir(parents=True)
    write = partial(_write_chunk, str(root), count, few_files=few_files)
    if count <= CHUNK:
        write(0)
    else:
        with ProcessPoolExecutor(processes or os.cpu_count()) as pool:
            for _ in pool.map(write, range(0, count, CHUNK)):
                pass
    if sources > 1:
        _share_out(root, sources)


def _share_out(root: Path, sources: int) -> None:
    owners = sorted(root.iterdir())
    for source in range(sources):
        folder = root / str(source + 1)
        folder.mkdir()
        for owner in owners[source::sources]:
            owner.rename(folder / owner.name)


def skill_path(number: int) -> str:
    """Return the folder of a skill below the root, `owner/name`; the name is unique and valid by the format."""
    rng = Random(f"place {number}")  # noqa: S311 - reproducible, not secret
    topic = TOPICS[rng.choice(_topics_of(original(number)))]
    owner = int(OWNERS * rng.random() ** 2)
    return f"{_rare_word(owner)}-{owner}/{rng.choice(VERBS)}-{topic[0]}-{rng.choice(topic[1:])}-{number:06d}"


def is_twin(number: int) -> bool:
    """Return whether the skill is a fork of an earlier one."""
    return number > 0 and Random(f"twin {number}").random() < TWINS  # noqa: S311 - reproducible, not secret


def original(number: int) -> int:
    """Follow forks to the skill that is none; early skills have more forks than late ones."""
    while is_twin(number):
        number = int(number * Random(f"fork {number}").random() ** 2)  # noqa: S311 - reproducible, not secret
    return number


def _topics_of(number: int) -> tuple[int, ...]:
    rng = Random(f"topics {number}")  # noqa: S311 - reproducible, not secret
    return tuple(rng.sample(range(len(TOPICS)), 2))


def _write_chunk(root: str, count: int, start: int, *, few_files: bool) -> None:
    for number in range(start, min(start + CHUNK, count)):
        folder = f"{root}/{skill_path(number)}"
        os.makedirs(folder)  # noqa: PTH103 - a Path for each of a million files takes minutes
        draft = (_twin if is_twin(number) else _draft)(number, few_files=few_files)
        for path in {os.path.dirname(path) for path in draft.files}:  # noqa: PTH120
            os.makedirs(f"{folder}/{path}")  # noqa: PTH103
        _write(f"{folder}/SKILL.md", _skill_md(number, draft).encode())
        for path, content in draft.files.items():
            _write(f"{folder}/{path}", content)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(content)


def _draft(number: int, *, few_files: bool) -> Draft:
    """Return an original skill."""
    rng = Random(f"skill {number}")  # noqa: S311 - reproducible, not secret
    topics = _topics_of(number)
    title = f"{rng.choice(VERBS)} {TOPICS[topics[0]][0]} {rng.choice(TOPICS[topics[0]][1:])}".title()
    counts = FEW_FILE_COUNTS if few_files else FILE_COUNTS
    files = dict(_bundled(rng, topics) for _ in range(rng.choices(range(len(counts)), counts)[0]))
    sentence = _stocked_sentence if few_files else _sentence
    links = "".join(f"- [{path}]({path}): {_sentence(rng, topics)}\n" for path in files)
    body = f"# {title}\n\n{_prose(rng, topics, rng.randint(2000, 6000) - len(links), sentence)}"
    return Draft(topics, title, _description(rng, topics), body + (f"## Files\n\n{links}" if links else ""), files)


def _twin(number: int, *, few_files: bool) -> Draft:
    """Return a fork: another description, and often a few other words, lines or bytes of a bundled file."""
    draft = _draft(original(number), few_files=few_files)
    rng = Random(f"skill {number}")  # noqa: S311 - reproducible, not secret
    body, files = draft.body, dict(draft.files)
    if rng.random() > SAME_BODY:
        body = _changed(rng, draft.topics, body)
    texts = [path for path in files if path.endswith(".md")]
    if texts and rng.random() < OTHER_FILE:
        path = rng.choice(texts)
        files[path] = _changed(rng, draft.topics, files[path].decode()).encode()
    description = draft.description
    if rng.random() > SAME_BODY:
        description = f"{description} {_sentence(rng, draft.topics)}"
    return draft._replace(description=description, body=body, files=files)


def _changed(rng: Random, topics: Sequence[int], text: str) -> str:
    """Change one to five lines: replaced, removed or added."""
    lines = text.split("\n")
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(2, len(lines)) if len(lines) > 2 else 0  # noqa: PLR2004 - the title and the empty line stay
        if lines[at].startswith("- ["):
            continue
        lines[at : at + rng.randint(0, 1)] = [_sentence(rng, topics)] * rng.randint(0, 1)
    return "\n".join(lines)


def _skill_md(number: int, draft: Draft) -> str:
    rng = Random(f"frontmatter {number}")  # noqa: S311 - reproducible, not secret
    owner, name = skill_path(number).split("/")
    text = draft.description
    description = rng.choice((json.dumps(text), f"'{text}'", f">-\n  {text}"))
    tags = ", ".join(TOPICS[topic][0] for topic in draft.topics)
    optional = {"license": rng.choice(LICENSES), "allowed-tools": rng.choice(TOOLS)}
    given = "".join(f"{key}: {value}\n" for key, value in optional.items() if value)
    return (
        f"---\nname: {name}\ndescription: {description}\n{given}"
        f'metadata:\n  author: {owner}\n  version: "{rng.randint(0, 4)}.{rng.randint(0, 20)}"\n  tags: "{tags}"\n'
        f"---\n\n{draft.body}"
    )


def _bundled(rng: Random, topics: Sequence[int]) -> tuple[str, bytes]:
    """Return the path and the content of a bundled file."""
    stem = f"{rng.choice(TOPICS[topics[0]][1:])}-{rng.choice(VERBS)}-{rng.randint(1, 99)}"
    path = rng.choice(KINDS).format(stem)
    size = min(int(rng.lognormvariate(math.log(MEDIAN_SIZE), SPREAD)) + 40, LARGEST)
    return path, _content(rng, topics, path.rpartition(".")[2], size)


def _content(rng: Random, topics: Sequence[int], kind: str, size: int) -> bytes:
    if kind == "png":
        return b"\x89PNG\r\n\x1a\n" + rng.randbytes(size)
    if kind == "md":
        return f"# {TOPICS[topics[0]][0].title()}\n\n{_prose(rng, topics, size)}".encode()
    lines = _prose(rng, topics, size * 3 // 4).replace("## ", "").split("\n")
    rows = [line for sentence in lines if sentence for line in sentence.split(". ")]
    texts = {
        "py": lambda: '"""A bundled script."""\n\nROWS = [\n' + "".join(f"    {row!r},\n" for row in rows) + "]\n",
        "sh": lambda: "#!/bin/sh\nset -eu\n" + "".join(f"echo {row!r}\n" for row in rows),
        "json": lambda: json.dumps([{"id": index, "note": row} for index, row in enumerate(rows)], indent=1) + "\n",
        "csv": lambda: "id,note\n" + "".join(f"{index},{row}\n" for index, row in enumerate(rows)),
        "html": lambda: "<!doctype html>\n<ul>\n" + "".join(f"<li>{row}</li>\n" for row in rows) + "</ul>\n",
        "yaml": lambda: "".join(f"- id: {index}\n  note: {json.dumps(row)}\n" for index, row in enumerate(rows)),
    }
    return texts[kind]().encode()


def _description(rng: Random, topics: Sequence[int]) -> str:
    first, second = (TOPICS[topic] for topic in topics)
    task = f"{rng.choice(VERBS)} {first[0]} {rng.choice(first[1:])}s and {rng.choice(second[1:])}s"
    details = " ".join(_sentence(rng, topics) for _ in range(rng.randint(0, 4)))
    return f"Helps to {task}. Use when the user works with {first[0]} or {second[0]}. {details}".rstrip()


def _prose(
    rng: Random, topics: Sequence[int], size: int, sentence: Callable[[Random, Sequence[int]], str] | None = None
) -> str:
    """Write sections of Markdown of about `size` bytes."""
    sentence = sentence or _sentence
    parts: list[str] = []
    left = size
    while left > 0:
        title = " ".join(_words(rng, topics, 3)).title()
        sentences = [sentence(rng, topics) for _ in range(rng.randint(2, 5))]
        steps = "".join(f"- {sentence(rng, topics)}\n" for _ in range(rng.randint(0, 4)))
        parts.append(f"## {title}\n\n{' '.join(sentences)}\n\n{steps}{steps and chr(10)}")
        left -= len(parts[-1])
    return "".join(parts)


def _sentence(rng: Random, topics: Sequence[int]) -> str:
    return " ".join(_words(rng, topics, rng.randint(7, 18))).capitalize() + "."


def _stocked_sentence(rng: Random, topics: Sequence[int]) -> str:
    return rng.choice(_stock(rng.choice(topics)))


@cache
def _stock(topic: int) -> Sequence[str]:
    rng = Random(f"stock {topic}")  # noqa: S311 - reproducible, not secret
    return [_sentence(rng, (topic,)) for _ in range(STOCK)]


def _words(rng: Random, topics: Sequence[int], count: int) -> list[str]:
    """Draw words: most are common, a quarter are terms of the topics, one in sixteen is rare."""
    words = rng.choices(COMMON, cum_weights=_zipf(len(COMMON)), k=count)
    for index in range(rng.randrange(4), count, 4):
        words[index] = rng.choice(TOPICS[rng.choice(topics)])
    if rng.random() < count / 16:
        words[rng.randrange(count)] = _rare_word(rng.choices(range(RARE_WORDS), cum_weights=_zipf(RARE_WORDS))[0])
    return words


@cache
def _zipf(count: int) -> Sequence[float]:
    return list(accumulate(1 / rank for rank in range(1, count + 1)))


@cache
def _rare_word(number: int) -> str:
    rng = Random(f"word {number}")  # noqa: S311 - reproducible, not secret
    return "".join(rng.choices(SYLLABLES, k=rng.randint(2, 4)))


def main() -> None:
    """Write a corpus into a new folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--skills", type=int, default=1000)
    parser.add_argument("--few-files", action="store_true", help="nine skills in ten are a SKILL.md alone")
    parser.add_argument("--sources", type=int, default=1, help="how many folders the owners are shared out over")
    parser.add_argument("--processes", type=int, help="how many processes write (default: one a processor)")
    options = parser.parse_args()
    write_scale_corpus(
        options.folder,
        options.skills,
        processes=options.processes,
        few_files=options.few_files,
        sources=options.sources,
    )


if __name__ == "__main__":
    main()
