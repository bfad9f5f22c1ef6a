"""What `doctor` looks at, in the order in which things have to work: installation, settings, skills, address, clients.

An examination yields what it finds and changes nothing. What the system refuses ends only the part that needs it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from server import __version__
from server.capabilities.doctor.client_examination import clients
from server.capabilities.doctor.patient import Patient, guarded
from server.capabilities.doctor.ports import holder_of
from server.capabilities.doctor.symptoms import Health, Kind, Part, Symptom, found, good
from server.capabilities.scripts.factory import script_status
from server.cli.config_check.check import check_configuration
from server.cli.config_check.finding import Level
from server.config.bootstrap import open_catalog
from server.config.project_file import ProjectFile
from server.config.settings.names import BY_PATH, value_of
from server.config.settings.server import Transport
from server.hosting.status import capability_lines, count_states, diagnostic_lines
from skills_core.diagnostics import Severity, agreeing, counted, one_line, shortened
from skills_core.errors import SkillsError
from skills_core.installation import EXTRAS, extra_advice, missing_modules
from skills_core.skills.skill import State

if TYPE_CHECKING:
    from server.config.settings.model import Settings
    from skills_core.catalog.catalog import Catalog, FoundSource
    from skills_core.skills.skill import Skill

_MOST_SKILLS: Final = 20
_MAX_VALUE: Final = 160
_SCRIPT_HEAD: Final = 512
_SECRETS_IN_ADDRESS: Final = re.compile(r"(?<=://)[^/@\s\"]*(?=@)|(?<=\?)[^#\s\"]*")
# A user with a password, and a query, either of which may have a key.


def installation(patient: Patient) -> Iterator[Symptom]:
    """Which Python runs which skillserve, whether a terminal finds the same, and which extras are installed."""
    version = ".".join(map(str, sys.version_info[:3]))
    program = Path(sys.argv[0]).absolute()
    yield good(f"skillserve {__version__} at {program}, Python {version} at {sys.executable}")
    on_path = shutil.which("skillserve", path=patient.environment.get("PATH", os.defpath))
    if on_path is None:
        yield found(Kind.NOT_ON_PATH, "the command `skillserve` is not on the PATH", program=program)
    elif not _is_ours(Path(on_path)):
        yield found(Kind.OTHER_INSTALLATION, f"`skillserve` on the PATH is {on_path}, which is another installation")
    for extra in EXTRAS:
        if missing := missing_modules(extra):
            verb = agreeing(len(missing), "is", "are")
            message = f"without the extra `{extra}`: {', '.join(missing)} {verb} not installed"
            yield found(Kind.EXTRA_MISSING, message, extra_advice(extra))
        else:
            yield good(f"with the extra `{extra}`")


def _is_ours(program: Path) -> bool:
    """Tell whether a script starts the Python that runs now; of what is not a script, nothing is known."""
    with program.open("rb") as file:
        head = file.read(_SCRIPT_HEAD)
    return not head.startswith(b"#!") or os.fsencode(sys.executable) in head


def runs(patient: Patient) -> Iterator[Symptom]:
    """Whether runs and scripts are available, and whether a sandbox works."""
    for line in capability_lines(patient.settings):
        yield good(line)
    scripts = script_status(patient.settings)
    if scripts["missing"]:
        kind = Kind.SANDBOX_REQUIRED if scripts["sandbox_required"] else Kind.NO_SANDBOX
        yield found(kind, f"there is no complete sandbox: {', '.join(scripts['missing'])} is missing")


def configuration(patient: Patient) -> Iterator[Symptom]:
    """Which files have settings, which settings differ from the default, and what is wrong, as `config check` tells."""
    report = check_configuration(patient.machine, patient.environment)
    mine, *_ = report.files
    if not mine.exists:
        yield good(f"{mine.path}: {mine.purpose} (does not exist)")
    for file in report.files:
        if file.exists:
            yield good(f"{file.path}: {file.purpose}")
    for path, origin in sorted(patient.checked.origins.items()):
        if patient.checked.is_set(".".join(path)):
            yield good(f"{'.'.join(path)} = {_shown(patient.checked.settings, path)}, from {origin}")
    if (project := patient.settings.project) is not None:
        own = {name: value for name, value in structs.asdict(project.discovery).items() if value not in (None, ())}
        for name, value in own.items():
            shown = shortened(msgspec.json.encode(value).decode(), _MAX_VALUE)
            yield good(f"discovery.{name} = {shown}, for this project, from {ProjectFile(patient.machine.places).path}")
    for each in report.findings:
        kind = Kind.SETTING_INVALID if each.level is Level.ERROR else Kind.SETTING_WARNING
        key = "" if each.key is None else f"{each.key}: "
        where = each.file if each.line is None else f"{each.file}:{each.line}"
        yield found(kind, f"{where}: {key}{each.message}", each.advice)


def _shown(settings: Settings, path: tuple[str, ...]) -> str:
    """Return the value of a setting without secrets."""
    if BY_PATH[path].is_secret:
        return "(secret)"
    value = msgspec.json.encode(value_of(settings, path), enc_hook=lambda _: "(secret)").decode()
    return shortened(_SECRETS_IN_ADDRESS.sub("…", value), _MAX_VALUE)


def skills(patient: Patient) -> Iterator[Symptom]:
    """Where skills were looked for, and which of them are not served, and why."""
    try:
        catalog = open_catalog(patient.directories, patient.settings, patient.machine, awaited=True)
    except SkillsError as error:
        yield found(Kind.NO_SUCH_FOLDER, str(error))
        return
    for source in catalog.sources:
        yield from _source(source)
    counts = count_states(catalog.skills)
    if counts[State.ACTIVE.value]:
        yield good(", ".join(f"{number} {state}" for state, number in counts.items()))
    else:
        looked = ", ".join(str(each.source.root) for each in catalog.sources)
        yield found(Kind.NO_SKILL, f"no skill is served; looked in {looked}")
    yield from _bounded(map(_broken, _in(catalog, State.INVALID)), Kind.SKILL_BROKEN)
    yield from _bounded(map(_left_out, _in(catalog, State.EXCLUDED, State.SHADOWED)), Kind.SKILL_NOT_SERVED)
    told = {str(each.source.root) for each in catalog.sources if each.source.fault or not each.exists}
    problems = (found(Kind.PLACE_NOT_READ, str(each)) for each in catalog.problems if each.path not in told)
    yield from _bounded(problems, Kind.PLACE_NOT_READ)


def _source(each: FoundSource) -> Iterator[Symptom]:
    place = each.source.root
    if each.source.fault:
        yield found(Kind.NO_SUCH_FOLDER, each.source.fault)
    elif each.exists and not each.trusted:
        yield found(Kind.PROJECT_NOT_TRUSTED, f"{place} belongs to a project that is not trusted")
    elif each.exists:
        yield good(f"{place}: {counted(each.skills, 'skill')}")
    elif not each.source.optional:
        yield found(Kind.NO_SUCH_FOLDER, f"{place}: there is no such folder")


def _in(catalog: Catalog, *states: State) -> Iterator[Skill]:
    return (skill for skill in catalog.skills if skill.state in states)


def _broken(skill: Skill) -> Symptom:
    faults = [each for each in skill.diagnostics if each.severity is Severity.ERROR]
    lines = diagnostic_lines(faults[0]) if faults else []
    place = skill.source.root / skill.content.place
    # The line of a fix begins with its label.
    fix = f"{one_line(lines[1].strip())}; or run: skillserve validate --fix {place}" if len(lines) > 1 else ""
    return found(
        Kind.SKILL_BROKEN, f"{skill.key} is not served: {lines[0] if lines else skill.detail}", fix, path=place
    )


def _left_out(skill: Skill) -> Symptom:
    why = f"{skill.reason}: {skill.detail}" if skill.reason else str(skill.state)
    return found(
        Kind.SKILL_NOT_SERVED, f"{skill.key} ({skill.source.root / skill.content.place}) is {skill.state}: {why}"
    )


def _bounded(symptoms: Iterator[Symptom], kind: Kind) -> Iterator[Symptom]:
    """Yield the first symptoms, and how many more of this kind there are."""
    for number, symptom in enumerate(symptoms):
        if number < _MOST_SKILLS:
            yield symptom
        else:
            more = counted(1 + sum(1 for _ in symptoms), "more")
            yield found(kind, f"{more.removesuffix('s')} like these", "run: skillserve status")


def address(patient: Patient) -> Iterator[Symptom]:
    """Whether a server over HTTP can listen at the address of the settings, and what else listens there."""
    from server.transport.listening import AddressInUseError, listen

    http = patient.settings.http
    try:
        listen(http).close()
    except AddressInUseError as error:
        holder = holder_of(http.port)
        held = f" (held by {holder})" if holder else ""
        health = Health.BAD if patient.settings.server.transport is Transport.HTTP else None
        yield found(Kind.PORT_TAKEN, f"{error}{held}", health=health)
        return
    yield good(f"{http.host} port {http.port} is free for --transport http")


_EXAMINATIONS: Final[Sequence[tuple[Part, Callable[[Patient], Iterator[Symptom]]]]] = (
    (Part.INSTALLATION, installation),
    (Part.RUNS, runs),
    (Part.SETTINGS, configuration),
    (Part.SKILLS, skills),
    (Part.ADDRESS, address),
    (Part.CLIENTS, clients),
)


def examine(patient: Patient) -> Iterator[tuple[Part, Iterator[Symptom]]]:
    """Yield what each examination finds."""
    for part, examination in _EXAMINATIONS:
        yield part, guarded(examination(patient), part.value)


def described(symptom: Symptom) -> dict[str, Any]:
    """Return a symptom as `doctor --json` prints it."""
    return {
        "health": symptom.health.value,
        "kind": None if symptom.kind is None else symptom.kind.key,
        "message": symptom.message,
        "advice": symptom.advice or None,
    }
