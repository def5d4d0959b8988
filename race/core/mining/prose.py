"""The words of the matter in prose: titles, messages, changelogs, comments, names of tests."""

from __future__ import annotations

import re
from dataclasses import dataclass

FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix|fixes|gy)?|prevent(s|ed|ing)?|avoid(s|ed|ing)?|ensure(s|d)?|"
    r"resolv(e[sd]?|ing)|correct(s|ed|ly)?|handl(e|es|ed|ing)|do(n.t| not)|guard(s|ed)?|never|"
    r"no longer|properly|regression|hardens?|protect|restor(e|es|ed)|preserv(e|es|ed)|rais(e|es|ed)|"
    r"only|always|crash(es|ed)?|fail(s|ed|ure)?|error|wrong(ly)?|incorrect(ly)?|miss(ed|ing)|lost|"
    r"los(e|es|ing)|drop(s|ped|ping)?|swallow(s|ed|ing)?|unexpected(ly)?|broken|issue)\b",
    re.IGNORECASE,
)
"""A defect, or a remedy for one, is spoken of."""
STRONG_FIX = re.compile(
    r"\b(fix(es|ed|ing)?|bug(s|fix|fixes)?|prevent(s|ed|ing)?|avoid(s|ed|ing)?|resolv(e|es|ed|ing))\b",
    re.IGNORECASE,
)
"""A remedy is claimed."""
FEATURE = re.compile(
    r"^\W*(feat|feature|add(s|ed|ing)?|implement(s|ed|ing|ation)?|introduc(e|es|ed|ing)|support(s|ed|"
    r"ing)?|new|allow(s|ed|ing)?|enable[sd]?|expose[sd]?|provid(e|es|ed)|improv(e|es|ed)|"
    r"optional(ly)?|option|rename[sd]?|refactor(s|ed|ing)?|remov(e|es|ed|ing)|drop(s|ped)?|deprecat(e|"
    r"es|ed)|updat(e|es|ed|ing)|simplif(y|ies|ied)|clean(s|ed)?|mov(e|es|ed)|chang(e|es|ed)|switch(ed|"
    r"es)?|replac(e|es|ed)|us(e|es|ed|ing)|convert(s|ed)?|rewrit(e|es)|rework(s|ed)?|bump|upgrade|"
    r"typ(e|ing|es)|perf|docs?|chore|refactoring|ci|build|style|speed|optimi[sz]e[sd]?|reduc(e|es|ed)|"
    r"make[sd]?|made|warn)\b",
    re.IGNORECASE,
)
"""How titles of features and upkeep begin."""
FEATURE_ANYWHERE = re.compile(
    r"\b(feature|add(s|ed)? (a |an |the |new )?|support(s|ed)? for|new |option(s|al|ally)?|"
    r"implement(s|ed)?|extension|refactor(s|ed|ing)?|performance|speed ?up|deprecat\w+|rename[sd]?|"
    r"typing|annotations?|refcycles?|reference cycles?|cyclic|docs?|documentation|logging|metrics?|"
    r"tracing)\b",
    re.IGNORECASE,
)
"""Features and upkeep, anywhere in a title."""
TEST_MENTION = re.compile(r"\b(tests?|testing|fixtures?|ci|coverage)\b|\btest_\w+", re.IGNORECASE)
"""Tests are mentioned."""
TEST_WORK = re.compile(
    r"\b(flak(y|iness|e)|deflake|test suite|regression tests?|(in|of|for|the|all|some|more|unit|"
    r"broken|failing|unstable|fix(es|ed|ing)?|add(s|ed|ing)?|improv(e|es|ed|ing)|rewrite|refactor|"
    r"speed up|clean ?up|parametri[sz]e) ([\w-]+ )?tests)\b|^\W*tests?\b|^\W*ci\b|\btest_\w+",
    re.IGNORECASE,
)
"""Work on tests."""
TYPE = re.compile(
    r"^\W*(?P<type>[a-z]+)(\([^)]*\))?!?:",
    re.IGNORECASE,
)
"""A conventional commit's type."""
OPTION = re.compile(
    r"\b(option(s|al|ally)?|flag|param(eter)?s?|argument|kwarg|keyword|alias|config(ur\w+)?|setting|"
    r"subclass\w*|api|interface|method|class|function|decorator|property|attribute|type hints?)\b",
    re.IGNORECASE,
)
"""An option or another piece of an interface."""
UPKEEP = re.compile(
    r"\b(perf(ormance)?|speed\w*|faster|contention|overhead|optimi[sz]\w*|"
    r"memory (leaks?|usage|use|consumption|footprint|pressure|backpressure)|"
    r"ref(erence)?[ -]?cycles?|refcycles?|cyclic|refactor\w*|renam\w*|code clean ?up|simplif\w*|"
    r"deprecat\w*|typ(ing|ed|es)|docs?|documentation|reorg\w*|coverage|pep ?8|format(ting)?|compat\w*|"
    r"support for|python ?3(\.\d+)? support|misc|updates?|improve\w*|better)\b",
    re.IGNORECASE,
)
"""Performance, memory, clarity, documentation."""
SAYING = re.compile(
    r"\b(warn(ing|s|ings)?|error message|message|messages|log(s|ging|ged)?|clear(er)? error|debug\w*|"
    r"resourcewarning|repr|trac(e|ing)|metrics?|statistics)\b",
    re.IGNORECASE,
)
"""What a program says rather than does."""
REGRESSION = re.compile(
    r"regression|reproduc|\bused to\b|previously|before (the|this) (fix|change)|"
    r"\bissues?[ /]#?\d+|(?<![\w&])#\d{2,}|\bgh-?\d+|\bbug\b|must not|should not|"
    r"no longer|without (the|this) fix|"
    r"does(n.t| not) (hang|block|deadlock|leak|raise|crash|lose|drop)",
    re.IGNORECASE,
)
"""A bug that was there before is told of."""
NAMED_DEFECT = re.compile(
    r"(from|by|in|across|between) (an?other|other|several|many|multiple|two|different) "
    r"(threads?|tasks?|coroutines?|process(es)?|loops?|clients?)|at once|at the same time|"
    r"\brac(e|es|y|ing)[ -](conditions?|hazards?|between|when|in|with|on)\b|\braces?\b|"
    r"dead-?locks?|live-?lock|thread[- ]?saf(e|ety)|toctou|\bhang(s|ing)?\b|\bstuck\b|"
    r"lost wake-?ups?|(event|asyncio) loop (is )?(already )?(closed|running|blocked)|"
    r"never awaited|"
    r"(task|connection|thread|process|worker|coroutine|stream|socket)s? leak|"
    r"leak(s|ed|ing)? (of )?(a |an |the )?(task|connection|thread|process|worker|coroutine|stream|"
    r"socket)s?|"
    r"cancell?ation|cancell?ed|"
    r"(unlock|not thread|concurrent (access|modification|use))",
    re.IGNORECASE,
)
"""Words that name a defect of the matter, not just a part of it."""


@dataclass(frozen=True)
class Topic:
    """A part of the matter: how it is spoken of. Every match has one of the `hints` in it, so that most
    texts are done with quickly."""

    pattern: re.Pattern[str]
    hints: tuple[str, ...]

    def count(self, text: str) -> int:
        """How often a text speaks of it."""
        low = text.lower()
        return len(self.pattern.findall(text)) if any(hint in low for hint in self.hints) else 0


_HINTS = {
    "race": "rac toctou stale concurren simultan atomic same_time interleav order flight outdated "
    "supersed overtak late_",
    "deadlock": "dlock d-lock elock e-lock lock_inversion entran",
    "hang": "hang hung stuck never_ forever indefinite freez froze block spin 100%_cpu starv",
    "cancel": "cancel shield",
    "shutdown": "shut clos stop tear disconnect graceful finali exit",
    "leak": "leak orphan dangling unclosed released returned closed",
    "thread": "thread executor",
    "loop": "loop call_soon",
    "lock": "lock mutex semaphore condition critical acquir release wake waiter notif",
    "context": "context thread sniffio across between",
    "task": "task coroutine await future async nursery trio anyio background",
    "timeout": "time deadline",
}
"""A blank is written as an underscore here, but for `call_soon`."""
PROSE: dict[str, Topic] = {
    name: Topic(
        re.compile(pattern, re.IGNORECASE),
        tuple(hint if hint == "call_soon" else hint.replace("_", " ") for hint in _HINTS[name].split()),
    )
    for name, pattern in {
        "race": (
            r"\brac(e|es|ing|y)\b(?! ?(track|car))|race[- ]condition|\btoctou\b|\bstale\b|"
            r"\bconcurren(t|tly|cy)\b|simultaneous|\batomic(ally|ity)?\b|at the same time|"
            r"interleav|out[- ]of[- ]order|in[- ]flight|non-atomic|\boutdated\b|\bsupersed|"
            r"\bovertak(e|es|en|ing)\b|\blate (answers?|repl(y|ies)|responses?|results?|messages?)\b"
        ),
        "deadlock": (r"dead-?lock|live-?lock|\bself-deadlock|lock inversion|re-?entran(t|cy)"),
        "hang": (
            r"\bhang(s|ing)?\b|\bhung\b|\bstuck\b|"
            r"never (return|finish|complet|wake|terminat|resolv)|forever|indefinite(ly)?|"
            r"\bfreez(e|es|ing)\b|\bfroze\b|\bblock(s|ed|ing)? (the )?(event )?loop|\bunblock|"
            r"spin(s|ning)?\b|100% cpu|starv"
        ),
        "cancel": (r"cancel|\bshield|\buncancel"),
        "shutdown": (
            r"shut(ting)? ?down|\bclos(e|es|ed|ing|ure)\b|\bstop(s|ped|ping)?\b|tear ?down|"
            r"disconnect|graceful|finali[sz]|\bexit(s|ing|ed)?\b"
        ),
        "leak": (
            r"\bleak(s|ed|ing|y)?\b|orphan|dangling|unclosed|"
            r"not (being )?(released|returned|closed)|never (released|closed)"
        ),
        "thread": (
            r"thread[- _]?(safe|safety|local|pool)|\bthread(s|ed|ing)?\b|multi-?thread|"
            r"free-?thread|\bexecutor"
        ),
        "loop": (
            r"event loop|(?<!infinite )(?<!endless )(?<!infinity )\bloops?\b|eventloop|"
            r"call_soon"
        ),
        "lock": (
            r"\block(s|ed|ing)?\b|mutex|semaphore|\bcondition\b|critical section|\bacquir|"
            r"\brelease[sd]?\b|wake-?up|\bwaiter|notif(y|ied)"
        ),
        "context": (
            r"context ?vars?\b|contextvariables?|context variables?|thread[- _]?local|\bsniffio\b|"
            r"context (propagation|leak\w*|switch)|propagat\w+ (of )?(the )?contexts?\b|"
            r"(asyncio|async|task|thread|logical|execution)'?s? contexts?\b(?! ?manager)|"
            r"(across|between) (tasks|threads|contexts)"
        ),
        "task": (
            r"\btasks?\b|coroutine|\bawait|\bfutures?\b|\basync(io)?\b|\bnursery\b|task ?group|"
            r"\btrio\b|\banyio\b|background"
        ),
        "timeout": (r"time-?outs?|timed out|deadline"),
    }.items()
}
"""Parts of the matter, by name."""


_LEAD = re.compile(
    r"^\W*(?:(?:fix(?:e[sd])?|closes?|resolves?)?\s*(?:#|gh-|bpo-|[A-Z]{2,10}-)\d+\)?[:\s,-]*|"
    r"\[[^\]]*\][:\s]*|[\w./, -]{1,40}:\s+)+",
    re.IGNORECASE,
)
"""What may stand before a title's first word: a number, a component."""
OFFER = re.compile(
    r"^\W*(add(s|ed|ing)?|implement(s|ed|ing|ation)?|introduc(e|es|ed|ing)|support(s|ed|ing)?|new|"
    r"allow(s|ed|ing)?|enable[sd]?|expose[sd]?|provid(e|es|ed)|improv(e|es|ed|ing)|emit(s|ted)?|"
    r"includ(e|es|ed)|issue|batch|multiplex|forward|serve|show|print|export|accept(s|ed)?|define[sd]?|"
    r"extend(s|ed)?|increas(e|es|ed)|migrat(e|es|ed|ing)|adopt|merge|extract|port(ed)?|pin|expand|"
    r"creat(e|es|ed|ing)|better|more|verify|warn|initial|option(al)?|clean ?up|deprecat\w+|"
    r"re-?factor\w*|remov(e|es|ed|ing)|renam\w*|updat\w*|upgrad\w*|simplif\w*|convert\w*|rewrit\w*|rework\w*|"
    r"replac\w*|switch\w*|mov(e|es|ed|ing)|reduc\w*|optimi[sz]\w*|speed\w*|bump|drop(s|ped)?|"
    r"chang\w*|us(e|es|ing)|make[sd]?|made)\b",
    re.IGNORECASE,
)
"""How titles of features and upkeep begin, once number and component are taken off."""


def plain_title(title: str) -> str:
    """A title without number and component before its first word."""
    lead = _LEAD.match(title)
    return title[lead.end() :] if lead and lead.end() < len(title) else title
