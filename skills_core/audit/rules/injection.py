"""Phrases that turn the model against its user: overridden instructions, concealed harm, invented authority."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from skills_core.audit.findings import Hit, Rule, Severity
from skills_core.audit.matching import (
    TextPattern,
    commands_of,
    first_in_lines,
    is_quoted_data,
    prose_of,
    search_for,
    severity_at,
    shown,
)
from skills_core.audit.search import find, is_found

if TYPE_CHECKING:
    from skills_core.audit.skill import SkillUnderAudit


_MEANING = "tells the model to drop its instructions"

_PHRASES = {
    "Chinese": (
        r"(?:忽略|无视|無視|忘记|忘記|忘掉|不要理会|不理会|抛弃|丢弃)(?:掉)?.{0,6}"
        r"(?:之前|以前|先前|此前|以上|上述|上面|前面|系统|系統|原有|原来|其他|你)的?.{0,8}"
        r"(?:指令|指示|命令|规则|規則|提示|约束|限制)"
    ),
    "Japanese": (
        r"(?:これまで|今まで|以前|上記|前|先ほど|システム|既存|他)の?.{0,8}(?:指示|命令|ルール|規則|プロンプト|制約)"
        r".{0,8}(?:無視|忘れ|破棄|従わない)(?:し|て|る|せよ)?"
    ),
    "Spanish": (
        r"(?:^|[^\pL])(?:ignor[ae]n?|olvid[ae]n?|descart[ae]n?|desestim[ae]n?|haz caso omiso de"
        r"|no hagas caso (?:de|a))\s+"
        r"(?:(?:todas?|todos?|las?|los?|cualquier|tus?|sus?|de)\s+){0,3}(?:\pL+\s+)?"
        r"(?:instrucciones|reglas|directrices|indicaciones|[oó]rdenes|restricciones)\s+"
        r"(?:(?:que\s+\pL+|del?|de)\s+)?(?:anterior(?:es)?|previas?|previos?|sistema|precedentes|originales|recibidas)"
    ),
    "German": (
        r"(?:^|[^\pL])(?:ignoriere?n?|vergiss|vergessen|missachte|verwirf|übergehe)\s+(?:sie\s+)?"
        r"(?:(?:alle[nrs]?|sämtliche[nr]?|die|deine|jede|sonstigen)\s+){0,3}"
        r"(?:bisherigen?|vorherigen?|vorigen?|früheren?|vorangegangenen?|obigen?|anderen"
        r"|ursprünglichen?|bestehenden?)\s+"
        r"(?:\pL+\s+)?(?:anweisungen|instruktionen|regeln|vorgaben|befehle|richtlinien|einschränkungen)"
    ),
    "French": (
        r"(?:^|[^\pL])(?:ignor(?:e|ez|er)|oubli(?:e|ez|er)|néglig(?:e|ez)|ne tiens? pas compte de"
        r"|faites? abstraction de)\s+"
        r"(?:(?:toutes?|tous|les|tes|vos|des|de)\s+){0,3}(?:\pL+\s+)?"
        r"(?:instructions|consignes|règles|directives|ordres|restrictions)\s+"
        r"(?:précédent(?:e?s)|antérieur(?:e?s)|ci-dessus|système|du système|d'origine|initiales|reçues)"
    ),
    "Portuguese": (
        r"(?:^|[^\pL])(?:ignor[ae]m?|esque[çc]a|esquecer|desconsider[ae]|descarte)\s+(?:de\s+)?"
        r"(?:(?:todas?|todos?|as?|os?|quaisquer|suas|seus)\s+){0,3}(?:\pL+\s+)?"
        r"(?:instruções|regras|diretrizes|orientações|ordens|restrições)\s+"
        r"(?:anteriores|prévias|prévios|do sistema|acima|originais|recebidas)"
    ),
    "Russian": (
        r"(?:^|[^\pL])(?:игнорируй(?:те)?|проигнорируй(?:те)?|забудь(?:те)?|отбрось(?:те)?|не обращай внимания на)\s+"
        r"(?:(?:все|всех|любые|эти|свои|твои)\s+){0,3}"
        r"(?:предыдущие|прежние|предшествующие|прошлые|ранние|системные|исходные|другие)\s+(?:\pL+\s+)?"
        r"(?:инструкции|указания|правила|команды|ограничения|директивы)"
    ),
}

FOREIGN_OVERRIDES = tuple(TextPattern(phrase, f"{_MEANING}, in {language}") for language, phrase in _PHRASES.items())
"""A pattern for each language; apply them to the text itself, since the prose view turns Cyrillic letters to Latin."""


_NEAR = 400
# Characters around a request for silence in which a harmful act counts as what it hides.

_ORDERS = (
    r"(?:instructions?|rules|prompts?|guidelines?|directions?|constraints?|guardrails?|polic(?:y|ies)"
    r"|restrictions|safeguards|training|programming)"
)
_OTHERS = (
    r"(?:previous|prior|earlier|above|preceding|existing|original|other|current|system|safety|security"
    r"|developer|your|the user's|user)"
)

_OVERRIDE = (
    TextPattern(
        r"\b(?:ignore|disregard|forget|override|discard|set aside|pay no attention to"
        r"|stop following)\s+(?:(?:all|any|every|the|of|these|those"
        rf"|each)\s+){{0,3}}{_OTHERS}\s+(?:\w+\s+){{0,2}}{_ORDERS}\b",
        _MEANING,
    ),
    TextPattern(
        r"\b(?:ignore|disregard|forget)\s+(?:everything|anything|all)\s+(?:you (?:were|have been|are) told"
        r"|(?:that (?:was|came) )?(?:above|before|prior|previously|earlier))\b",
        _MEANING,
    ),
    TextPattern(
        r"\b(?:bypass|disable|circumvent|turn off|switch off|evade)\s+(?:\w+\s+){0,2}(?:safety|security"
        r"|content|permission|approval|confirmation|consent)\s+(?:\w+\s+){0,1}(?:checks?|filters?|guidelines?"
        r"|prompts?|polic(?:y|ies)|controls?|measures?|restrictions?|mechanisms?|guardrails?)\b",
        "tells the model to bypass a safeguard",
        Severity.WARNING,
    ),
    TextPattern(
        r"\byou are (?:now|no longer)\s+(?:\w+\s+){0,3}(?:dan|jailbroken|unrestricted|unfiltered|bound by"
        r"|restricted by|limited by|in developer mode|in god mode|in admin mode)\b",
        "gives the model another role without limits",
    ),
    TextPattern(
        r"\b(?:enter|enable|activate|switch to)\s+(?:god|jailbreak|unrestricted|dan)\s+mode\b",
        "gives the model another role without limits",
        Severity.WARNING,
    ),
    TextPattern(
        r"\b(?:reveal|print|output|repeat|show|send|leak|disclose)\s+(?:me\s+)?(?:your"
        r"|the)\s+(?:\w+\s+){0,2}(?:system prompt|system message|hidden instructions|initial instructions)\b",
        "asks for the system prompt",
        Severity.WARNING,
    ),
    TextPattern(
        r"\b(?:these|this skill's|the following|my|our)\s+(?:instructions?"
        r"|rules)\s+(?:\w+\s+){0,2}(?:override|supersede|take precedence over|replace"
        r"|outrank)\s+(?:\w+\s+){0,3}(?:instructions?|rules|prompts?|guidelines?|polic(?:y|ies))\b",
        "claims to outrank other instructions",
        Severity.WARNING,
    ),
)

_IMITATION = (
    TextPattern(
        r"<\|?(?:im_start|start_header_id)\|?>\s*system\b|\[/?INST\]|<<SYS>>|<\|(?:system|endoftext)\|>",
        "imitates the control tokens of a model",
    ),
    TextPattern(
        r"</?(?:system-reminder|system_prompt|system-prompt|admin|developer-message|anthropic[\w-]*instructions?)>",
        "imitates a message of the host",
    ),
)
_AUTHORITY = (
    TextPattern(
        r"^[ \t]*(?:\d+[.)]\s+)?\W{0,4}(?:system|admin(?:istrator)?|developer|anthropic|openai|root"
        r"|security team)[ \t]+(?:override|notice|message|directive|command|instruction|alert)\b\W{0,4}:",
        "imitates a message of an authority",
    ),
    TextPattern(
        r"\b(?:anthropic|openai|google|microsoft|your (?:developers?|creators?|administrator|operator)"
        r"|the (?:system )?administrator|the security team|it department|legal department"
        r"|management)\s+(?:has|have|hereby)\s+(?:\w+\s+){0,2}(?:authori[sz]ed|approved|granted|instructed"
        r"|ordered|mandated|sanctioned|cleared)\b",
        "claims that an authority allowed it",
    ),
    TextPattern(
        r"\b(?:the|this|your)\s+users?\s+(?:has|have)\s+(?:already\s+|previously\s+|explicitly\s+"
        r"|fully\s+){1,2}(?:authori[sz]ed|approved|consented|agreed|granted|given)\b.{0,60}\b(?:all|any|every"
        r"|full|future|unlimited|without)\b",
        "claims that the user has agreed to everything",
    ),
    TextPattern(
        r"\b(?:pre-?(?:approved|authori[sz]ed)|authori[sz]ed|approved|mandated|required)\s+by\s+(?:anthropic"
        r"|openai|the (?:system )?administrator|(?:the )?(?:it )?security team|your developers?)\b",
        "claims that an authority allowed it",
    ),
)

_PEOPLE = (
    r"(?:the |your |any |a )?(?:users?|humans?|operators?|owner|developer|person|people|anyone|anybody"
    r"|them|reviewer|administrator)"
)
_SILENCE = (
    r"\b(?:do not|don't|never|must not|should not|without)\s+(?:ever\s+)?(?:tell(?:ing)?|inform(?:ing)?"
    r"|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?|mention(?:ing)?|show(?:ing)?|reveal(?:ing)?|disclos(?:e"
    r"|ing)|report(?:ing)?|let(?:ting)?|ask(?:ing)?)\s+(?:(?:this|it|that|any of this|these|the \w+"
    rf"|about \w+)\s+){{0,2}}(?:to\s+)?{_PEOPLE}\b"
    r"|\b(?:do not|don't|never)\s+(?:mention|disclose|reveal|report|log|display|show|explain)\s+(?:this"
    r"|it|that|these|any of this)\b"
    r"|\b(?:silently|secretly|covertly|stealthily|surreptitiously|quietly)\s+(?:\w+\s+){0,1}(?:send"
    r"|upload|post|copy|read|collect|gather|delete|remove|run|execute|install|download|add|append|modify"
    r"|change|edit|write|forward|include|attach|disable|fetch|call|record|log)\b"
    rf"|\b(?:hide|conceal|keep)\s+(?:this|it|that|these|the \w+)\s+(?:\w+\s+){{0,2}}(?:from|hidden from"
    rf"|secret from)\s+{_PEOPLE}\b"
    rf"|\bwithout\s+{_PEOPLE}(?:'s)?\s+(?:knowledge|knowing|consent|permission|noticing|being aware)\b"
)
_HARM = (
    r"\b(?:send|upload|post|exfiltrat\w*|transmit|forward|leak|e-?mail|copy|append|attach"
    r"|include)\b.{0,80}\b(?:api[ _-]?keys?|tokens?|secrets?|credentials?|passwords?|private keys?"
    r"|ssh keys?|environment variables|env vars|\.env|cookies|wallet|seed phrase|conversation"
    r"|chat history|source code|file contents?|personal data|user(?:'s)? data)\b"
    r"|(?:~|\$HOME|/home/\w+|/root)/\.(?:ssh|aws|gnupg|kube|config/gcloud|netrc|npmrc|pypirc)\b"
    r"|\bid_(?:rsa|ed25519)\b|/etc/(?:shadow|passwd)\b"
    r"|\b(?:curl|wget|nc|ncat|invoke-webrequest)\b[^\n]{0,80}https?://"
    r"|\b(?:send|upload|post|submit|forward|transmit|report)\b[^\n]{0,80}https?://"
    r"|\brm\s+-[a-z]*[rf]|\b(?:delete|wipe|erase|destroy|overwrite|encrypt)\s+(?:\w+\s+){0,3}(?:files?"
    r"|logs?|history|backups?|database|data|repository|evidence)\b"
    r"|\b(?:disable|stop|kill|uninstall)\s+(?:\w+\s+){0,2}(?:antivirus|firewall|logging|audit|monitoring"
    r"|security|defender)\b"
    r"|\b(?:crontab|authorized_keys|\.bashrc|\.zshrc|\.profile|launchagents|settings\.json|claude\.md|agents\.md)\b"
    r"|\b(?:download|install|run|execute)\s+(?:\w+\s+){0,4}(?:payload|backdoor|binary|script from|miner"
    r"|malware|reverse shell)\b"
    r"|\bbase64\s+(?:-d|--decode|-D)\b"
)


def _overriding(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find orders to drop instructions; SKILL.md may quote one to say that it is data, which is a warning."""
    for hit in search_for(_OVERRIDE, prose_of)(skill):
        is_data = skill.is_main(hit.file) and hit.severity and is_quoted_data(hit.file, hit.start or 0)
        yield replace(hit, severity=hit.severity.demoted) if is_data and hit.severity else hit


_NAME_MARKS = str.maketrans("-_./+", "     ")


def says_override(text: str) -> bool:
    """Tell whether a text tells the model to drop its instructions, in any of the known languages."""
    certain = (each for each in (*_OVERRIDE, *FOREIGN_OVERRIDES) if each.severity is Severity.ERROR)
    return any(is_found(each.pattern, text) for each in certain)


def says_secret_harm(text: str) -> bool:
    """Tell whether a text that someone encoded asks for silence, or for a harmful act."""
    return is_found(_SILENCE, text) or is_found(_HARM, text)


def _overrides(skill: SkillUnderAudit) -> Iterator[Hit]:
    yield from _overriding(skill)
    yield from search_for(FOREIGN_OVERRIDES, lambda _, file: file.text or "")(skill)
    for file in skill.files.values():
        if says_override(name := file.path.translate(_NAME_MARKS)):
            yield Hit(file, f"the name of the file tells the model to drop its instructions: {shown(name)}")


def _concealed(skill: SkillUnderAudit) -> Iterator[Hit]:
    """Find requests for silence: an error beside a harmful act, a note alone, since many skills ask for quiet work."""
    for file in skill.documents:
        silences = list(find(_SILENCE, file.prose))
        harms = [each.start for each in find(_HARM, file.prose)] if silences else []
        for found in silences:
            near = next((at for at in harms if abs(at - found.start) <= _NEAR), None)
            if near is None and not is_found(rf"\b{_PEOPLE}\b", found.text):
                continue
            if near is None:
                severity, what = Severity.NOTE, "asks for silence towards the user"
            else:
                severity = severity_at(skill, file, found.start, Severity.ERROR)
                what = f"hides a harmful act (line {file.place_of(near)[0]}) from the user"
            yield Hit(file, f"{what}: {shown(found.text)}", found.start, severity)


RULES = (
    Rule(
        "instruction-override",
        Severity.ERROR,
        "Instructions that override others",
        "A skill that tells the model to drop its instructions or safeguards takes control of the session.",
        "Remove the sentence. Quote an attack as an example in a reference file, not in SKILL.md.",
        _overrides,
        8.5,
    ),
    Rule(
        "concealed-act",
        Severity.ERROR,
        "Silence about a harmful act",
        "An instruction to hide an upload, a deletion or the reading of secrets serves an attacker, not the user.",
        "Remove the request for silence, or the act; say openly what the skill sends, deletes and reads.",
        lambda skill: first_in_lines(_concealed(skill)),
        8.5,
    ),
    Rule(
        "fake-authority",
        Severity.ERROR,
        "Invented authority",
        "Text that imitates the host, or claims an approval, makes the model do what its user never allowed.",
        "Remove the claim; only the host and the user can give permissions.",
        lambda skill: (*search_for(_IMITATION, commands_of)(skill), *search_for(_AUTHORITY, prose_of)(skill)),
        8.0,
    ),
)
