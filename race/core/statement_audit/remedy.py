"""Rules against telling the remedy or the cause in words, and against hidden or encoded text."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
import unicodedata
import urllib.parse
from collections.abc import Iterator

from race.core.records import Finding
from race.core.statement_audit.case import IDENTIFIER, Case, Line, added_lines, removed_lines
from race.core.statement_audit.disclosure import disclosure

_VERBS = (
    "add|use|wrap|replace|move|hold|acquire|check|guard|protect|swap|introduce|store|keep|shield|catch|"
    "call|await|set|clear|remove|reorder|serialise|serialize|recheck|re-check|change|make|put|take|"
    "switch|drop|delete|discard|cancel|schedule|track|save|copy|capture|pass|insert|initialise|"
    "initialize|"
    "reset|restore|lock|iterate|loop|test|handle|suppress|record|register|create|convert|assign|"
    "increment|"
    "decrement|compare|look|snapshot|defer|delay|skip|avoid|override|implement|modify|edit|"
    "refactor|rewrite"
)
_GERUNDS = (
    "adding|using|wrapping|replacing|moving|holding|acquiring|checking|guarding|protecting|swapping|"
    "introducing|storing|keeping|shielding|catching|calling|awaiting|setting|clearing|removing|"
    "reordering|"
    "serialising|serializing|rechecking|re-checking|changing|making|putting|taking|switching|dropping|"
    "deleting|discarding|scheduling|tracking|saving|copying|capturing|passing|inserting|resetting|"
    "restoring|locking|handling|suppressing|recording|registering|creating|converting|assigning"
)
_ADVICE = re.compile(
    rf"\b(?:should|must|needs? to|has to|have to|ought to|could|can|you may|please|simply|just|instead|"
    rf"to fix (?:this|it|that)[ ,]*|i would|we should|one should|recommend(?:ed)? to|better to|"
    rf"enough to|"
    rf"suffices to|sufficient to|consider|remember to|make sure to|"
    rf"be sure to)\s+(?:\w+\s+){{0,2}}?(?:{_VERBS}|{_GERUNDS})\b|"
    rf"\b(?:by|consider|suggest|recommend|requires?|means)\s+(?:\w+\s+)?(?:{_GERUNDS})\b|"
    rf"(?:^|[-*.:;]\s+)(?:{_VERBS})\b",
    re.IGNORECASE,
)
_REMEDY = re.compile(
    r"\bto (?:fix|solve|repair|resolve) (?:this|it|the|that)\b|\b(?:fix|solution|remedy|"
    r"workaround|patch) "
    r"(?:is|was|would be|should|could|consists|here)\b|\bcan be (?:fixed|solved|repaired|"
    r"avoided|resolved) (?:by|with|if)\b|"
    r"\b(?:hint|tip|suggested (?:fix|change)|possible (?:fix|solution)|proposed (?:fix|change|"
    r"solution))\b",
    re.IGNORECASE,
)
_CAUSE = re.compile(
    r"\broot cause\b|\b(?:bug|cause|culprit|problem|fault|mistake|error|defect) (?:is|lies|sits|was) "
    r"(?:that|in|because|with|inside|within|here)\b|\bcaused by\b|\bdue to (?:the|a|an|"
    r"its) (?:missing|lack)\b|"
    r"\b(?:forgets?|forgot|neglects?|fails?) to (?:"
    + _VERBS
    + r")\b|\bthe code (?:does|doesn't|never|only|should|in)\b|"
    r"\b(?:is|are) (?:never|not) (?:cleared|reset|removed|released|discarded|awaited|held|"
    r"guarded|protected|shielded|locked|popped|set)\b",
    re.IGNORECASE,
)
_PLAIN_CAUSE = re.compile(
    r"\broot cause\b|\bthe code\b|\b(?:forgets?|forgot|neglects?) to\b", re.IGNORECASE
)
_CODE_WORDS = frozenset({"finally", "shield", "weakref", "deque", "contextlib", "nullcontext"})
_COMMON = frozenset(
    [
        "self",
        "none",
        "true",
        "false",
        "return",
        "raise",
        "async",
        "await",
        "with",
        "from",
        "import",
        "class",
        "else",
        "elif",
        "pass",
        "while",
        "break",
        "continue",
        "yield",
        "lambda",
        "global",
        "assert",
        "except",
        "finally",
        "this",
        "that",
        "then",
        "when",
        "they",
        "them",
        "value",
        "values",
        "name",
        "names",
        "args",
        "kwargs",
        "type",
        "types",
        "error",
        "errors",
        "exception",
        "result",
        "results",
        "task",
        "tasks",
        "loop",
        "event",
        "events",
        "state",
        "data",
        "item",
        "items",
        "call",
        "called",
        "calls",
        "should",
        "must",
        "have",
        "been",
        "will",
        "would",
        "there",
        "their",
        "than",
        "into",
        "over",
        "only",
        "also",
        "each",
        "more",
        "most",
        "some",
        "such",
        "what",
        "which",
        "where",
        "does",
        "done",
        "make",
        "made",
        "same",
        "time",
        "wait",
        "waits",
        "waiting",
        "once",
        "again",
        "after",
        "before",
        "still",
        "first",
        "last",
        "next",
        "other",
        "another",
        "while",
        "because",
        "between",
        "without",
        "until",
        "code",
        "function",
        "method",
        "object",
        "objects",
        "instance",
        "thread",
        "threads",
        "lock",
        "locks",
        "cancel",
        "cancelled",
        "close",
        "closed",
        "start",
        "started",
        "stop",
        "stopped",
        "user",
        "caller",
        "test",
        "tests",
        "future",
        "futures",
        "coroutine",
        "queue",
        "context",
        "connection",
        "connections",
        "order",
        "current",
        "running",
        "finished",
        "operation",
        "operations",
        "usable",
        "interface",
    ]
)


def remedy(case: Case) -> Iterator[Finding]:
    """Advice, causes, and what is hidden in the text."""
    words = _remedy_words(case)
    for line, sentence in sentences(case):
        telling = _advised(sentence, words)
        if telling:
            yield case.found("remedy", line, f"advises what the fix does ({telling})", sentence)
        elif _REMEDY.search(sentence):
            yield case.found("remedy", line, "speaks of the remedy", sentence)
        cause = _CAUSE.search(sentence)
        if cause and (_PLAIN_CAUSE.search(sentence) or _own(sentence) & words):
            yield case.found("cause", line, "explains the cause in the code", sentence)
    yield from _hidden(case)


def _own(sentence: str) -> set[str]:
    return {word.lower() for word in IDENTIFIER.findall(sentence)}


def _advised(sentence: str, words: frozenset[str]) -> str:
    """The word of the fix that a piece of advice in this sentence names, or nothing.

    An English word counts only close behind the advice; a word of code counts anywhere beside it.
    """
    for advice in _ADVICE.finditer(sentence):
        spoken = set(advice[0].lower().split())
        near = {word.lower() for word in IDENTIFIER.findall(sentence[advice.end() :])[:5]}
        for word in sorted((_own(sentence) & words) - spoken):
            if word in near or "_" in word or word in _CODE_WORDS or _as_means(word, sentence):
                return word
    return ""


def _as_means(word: str, sentence: str) -> bool:
    """`wrap the two steps in a lock`: the word is what something is to be done with."""
    means = r"\b(?:in|with|under|inside|behind|by|using|holding|taking|through|via)\s+(?:\w+\s+){0,2}"
    return bool(re.search(means + re.escape(word) + r"\b", sentence, re.IGNORECASE))


def sentences(case: Case) -> Iterator[tuple[Line, str]]:
    """The statement's sentences with the line that they start on; headings are sentences."""
    for line in case.lines:
        for part in re.split(r"(?<=[.!?;])\s+", line.text):
            if part.strip():
                yield line, part.strip()


def _remedy_words(case: Case) -> frozenset[str]:
    """Words of the fix's added lines that its removed lines do not have: what it brings into play."""
    added = {word.lower() for line in added_lines(case.fix) for word in IDENTIFIER.findall(line)}
    added &= case.code_words
    removed = {word.lower() for line in removed_lines(case.fix) for word in IDENTIFIER.findall(line)}
    parts = {part for word in added - removed for part in word.split("_") if len(part) >= 4}
    replaced = {word for word in removed if "_" in word.strip("_")}
    allowed = {
        part.lower()
        for word in case.allowed
        for part in (word, *re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", word))
    }
    brought = {word for word in added - removed | parts if len(word) >= 4}
    strong = brought & (_CODE_WORDS | {"lock"})
    return frozenset((brought - _COMMON - allowed) | (strong - allowed) | (replaced - allowed))


_INVISIBLE = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)


def _hidden(case: Case) -> Iterator[Finding]:
    """Text that a person does not see or read at once."""
    for line in case.lines:
        if _INVISIBLE.search(line.text):
            yield case.found("hidden-text", line, "invisible characters", ascii(line.text))
        if "<!--" in line.text or re.search(
            r"<(?:details|script|style|img|a|span|div)\b", line.text, re.IGNORECASE
        ):
            yield case.found("hidden-text", line, "a comment or markup that pages hide", line.text)
        for match in re.finditer(r"(?<![\w+/=])[A-Za-z0-9+/_-]{24,}={0,2}(?![\w+/=])", line.text):
            decoded = _decoded(match[0])
            if decoded and match[0] not in case.base_identifiers:
                yield case.found("encoded", line, f"encoded text ({decoded[:40]!r})", match[0])
    mine = {(item.rule, item.message) for item in disclosure(case)}
    for what, turned in _turned(case.statement):
        if turned == case.statement:
            continue
        other = case.reading(turned)
        for finding in disclosure(other):
            telling = finding.rule in ("fix-line", "test-code", "fix-identifier") or (
                finding.rule == "test-name" and "name of a hidden" in finding.message
            )
            if telling and (finding.rule, finding.message) not in mine:
                yield replace_finding(finding, f"{what}, it gives away {finding.message}")


def replace_finding(finding: Finding, message: str) -> Finding:
    """The same place under the rule of encoded text."""
    return finding.model_copy(update={"rule": "encoded", "message": message})


def _decoded(text: str) -> str:
    """What base64 or hex text says, when it says something readable."""
    candidates: list[bytes] = []
    try:
        candidates.append(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        pass
    try:
        candidates.append(bytes.fromhex(text))
    except ValueError:
        pass
    for data in candidates:
        try:
            shown = data.decode("ascii")
        except UnicodeDecodeError:
            continue
        if shown.isprintable() or "\n" in shown:
            return shown
    return ""


def _turned(text: str) -> Iterator[tuple[str, str]]:
    """The statement read in other ways."""
    yield "with its letters normalised", _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    yield "with entities resolved", html.unescape(text)
    yield "with percent signs resolved", urllib.parse.unquote(text)
    yield "read as rot13", codecs.encode(text, "rot13")
    yield "read backwards", "\n".join(line[::-1] for line in text.splitlines())
