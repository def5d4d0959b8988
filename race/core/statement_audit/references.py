"""Rules about pointers to the fix: links, numbers, hashes, versions, dates, people, origins."""

from __future__ import annotations

import re
from collections.abc import Iterator

from race.core.records import Finding
from race.core.statement_audit.case import Case

_LINK = re.compile(
    r"(?:https?|ftp|git|ssh)://\S+|\bwww\.\S+|\[[^\]]*\]\(\s*(?!#)[^)\s]+[^)]*\)|"
    r"\b(?:github|gitlab|bitbucket|readthedocs|pypi|stackoverflow|sourceforge|codeberg|google|discord)"
    r"\.(?:com|org|io|gg)\b\S*|\bbugs\.\w+\.\w+\b|\b\w+@[\w-]+:[\w./-]+\.git\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w&])#\d+\b|(?<!\w)!\d{2,}\b|\bGH[-_ ]?\d+\b|\bbpo-?\d+\b|\bCVE-\d{4}-\d+\b|"
    r"\b(?:pull|issues?|merge_requests|discussions)/\d+|[\w.-]+/[\w.-]+#\d+|:(?:issue|pr|pull|"
    r"gh):`?\d+|"
    r"\b(?:issues?|prs?|pull[- ]requests?|tickets?|merge[- ]requests?|mrs?|discussions?|bugs?|reports?)"
    r"\s*(?:nr\.?|no\.?|number|id|:|#)\s*#?\d+\b|"
    r"\b(?:issue|pr|pull[- ]request|ticket|merge[- ]request|mr|"
    r"discussion)\s*\d+\b(?!\s+(?:\w+\s+)?\w{3,}s\b)",
    re.IGNORECASE,
)
_HASH = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", re.IGNORECASE)
_VERSION = re.compile(
    r"\b(?:versions?|releases?|released in|fixed in|as of|upgrade to|since|until|works in|"
    r"worked in)\s*v?"
    r"\d+\.\d+(?:\.\w+)*\b|\bv\d+(?:\.\d+)+\b|(?<![\d.])\d+\.\d+\.\d+(?:[abrcdev.]+\d+)?(?![\d.])",
    re.IGNORECASE,
)
_INNOCENT = re.compile(
    r"\b(?:C?Python|PyPy|HTTP/?|TLS|SSL|IPv[46]|PEP|Unicode|RFC|AMQP|MQTT|RESP|Redis|Kafka|"
    r"Linux|Windows)"
    r"[ /v]*(?:versions? )?v?\d[\d.]*\+?",
    re.IGNORECASE,
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = re.compile(
    rf"\b(?:19|20)\d\d[-/.](?:0?\d|1[0-2])(?:[-/.]\d\d?)?\b|\b(?:\d\d?\.? )?(?:{_MONTHS})(?: \d\d?,?)? "
    rf"(?:19|20)\d\d\b|\b(?:in|since|until|year) 20[12]\d\b(?!\s+\w+s\b)"
)
_PERSON = re.compile(r"(?<![\w`/.])@[A-Za-z][\w-]{1,38}\b(?!\()|\b[\w.+-]+@[\w-]+\.[a-z]{2,}\b")
_ORIGIN = re.compile(
    r"\b(?:pull requests?|merge requests?|back-?port(?:ed|s)?|change-?log|release notes?|news fragment|"
    r"(?:fixed |in |from )upstream\b|upstream(?:'s)? (?:fix|commit|repo\w*|release|version|"
    r"project|change|"
    r"patch|issue|bug|maintainers?|code|test)|(?:was|were|been|got|recently|already|being) merged\b|"
    r"merged (?:pull|change|fix|upstream|patch|into (?:main|master))|"
    r"commit (?:message|hash|id|[0-9a-f]{4,})|(?:this|later|next|following|previous|fix(?:ing)?|merge) "
    r"commit\b|git (?:log|blame|bisect|show|diff)\b|(?:newer|later|latest|future) (?:version|"
    r"release)s?\b|"
    r"next version|(?:was|has been|were|is already|already|been) (?:since )?(?:fixed|patched)\b|"
    r"(?:the|this|our|reference|official|actual|real|following) (?:fix|patch|solution)\b|"
    r"(?:hidden|unit|regression|existing|new|failing|grading|private|integration) tests?\b|"
    r"test[- ]?(?:suite|case|file|name)s?\b|the tests?\b(?! (?:client|server|session|app|runner|"
    r"transport|loop|mode|environment|utilit|harness|double))|pytest\b(?! (?:plugin|fixture))|"
    r"unittest\b|"
    r"fail[-_]to[-_]pass|pass[-_]to[-_]pass|benchmark task|SWE-?bench|canary)",
    re.IGNORECASE,
)


def references(case: Case) -> Iterator[Finding]:
    """Every pointer, line by line."""
    numbers = {str(number) for number in case.numbers if number >= 100}
    prefixes = [commit[:6].lower() for commit in case.commits if len(commit) >= 6]
    for line in case.lines:
        text = line.text
        for match in _LINK.finditer(text):
            yield case.found("link", line, "a link", match[0])
        for match in _NUMBER.finditer(text):
            yield case.found("number", line, "the number of an issue or pull request", match[0])
        for match in re.finditer(r"(?<![\w.])\d{3,6}(?![\w.]*\d)", text):
            if match[0] in numbers:
                yield case.found(
                    "number", line, "the number of this pull request or its issue", match[0]
                )
        for match in _HASH.finditer(text):
            if not _spelled(match[0], case):
                yield case.found("hash", line, "a hash", match[0])
        for match in re.finditer(r"\b[0-9a-f]{6,40}\b", text.lower()):
            if any(match[0].startswith(prefix) for prefix in prefixes):
                yield case.found("hash", line, "the start of this task's commit", match[0])
        plain = _INNOCENT.sub(" ", text)
        for match in _VERSION.finditer(plain):
            if not _quoted_value(plain, match):
                yield case.found("version", line, "a version of the project", match[0])
        for match in _DATE.finditer(text):
            yield case.found("date", line, "a date", match[0])
        for match in _PERSON.finditer(text):
            if match[0][1:] not in case.base_identifiers:
                yield case.found("person", line, "a person or address", match[0])
        for match in _ORIGIN.finditer(_without_the_name(text, case.repo)):
            if not _in_interface(match[0], case) and not _in_the_name(match[0], case.repo):
                yield case.found("origin", line, "speaks of where the task comes from", match[0])


def _without_the_name(text: str, repo: str) -> str:
    """A line without the project's own name, which may hold any word (`pytest-asyncio`)."""
    name = repo.rpartition("/")[2]
    return (
        re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", " ", text, flags=re.IGNORECASE)
        if name
        else text
    )


def _in_the_name(text: str, repo: str) -> bool:
    """Whether the project is named after a test runner, which is then what its bugs are about."""
    return text.lower() in ("pytest", "unittest") and text.lower() in repo.rpartition("/")[2].lower()


def _spelled(word: str, case: Case) -> bool:
    """A hex-looking word that the product itself uses, such as a constant's name or `feedface`."""
    return word in case.base_identifiers or word.isdigit()


def _quoted_value(text: str, match: re.Match[str]) -> bool:
    """A decimal such as `in 0.5` seconds, or an address such as 127.0.0.1, is no version."""
    rest = text[match.end() :].lstrip(" `")
    if re.match(r"(?:s|ms|seconds?|secs?|milliseconds?|minutes?|times|%|of)\b|%", rest):
        return True
    number = re.search(r"\d[\d.]*", match[0])
    return number is not None and number[0].count(".") == 1 and number[0].startswith("0.")


def _in_interface(text: str, case: Case) -> bool:
    return any(text.lower() in f"{item.name} {item.detail}".lower() for item in case.interface)
