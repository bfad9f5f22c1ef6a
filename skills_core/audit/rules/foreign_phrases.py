"""Phrases in other languages than English by which a text tells the model to drop its instructions."""

from __future__ import annotations

from skills_core.audit.patterns import Pattern

__all__ = ["FOREIGN_OVERRIDES"]

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

FOREIGN_OVERRIDES = tuple(Pattern(phrase, f"{_MEANING}, in {language}") for language, phrase in _PHRASES.items())
"""A pattern for each language; apply them to the text itself, since the prose view turns Cyrillic letters to Latin."""
