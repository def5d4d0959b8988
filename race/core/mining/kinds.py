"""Which kind of bug a pull request fixes: by hand, from what its words and its code mean.

Every kind has its evidence, signals and hints with weights; the kind with the largest sum is told.
A fit of these weights on the labels we have is no better in other projects, so they stay by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from race.core.mining.word_signals import LONGEST_TITLE, plain_body

KINDS = (
    "race", "deadlock", "cancellation", "leak", "shutdown", "lifecycle", "thread-safety", "hang",
    "context", "other",
)  # fmt: skip
_ENDING = (
    r"clos(?:e|es|ed|ing|ure)|stop(?:s|ped|ping)?|shut(?:ting)? ?down|tear ?down|exit(?:s|ing|ed)?|"
    r"disconnect(?:s|ed|ing)?|finali[sz]ation"
)
_HINTS: dict[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "hint:ending": (
            r"\b(?:on|at|when|while|during|after|upon|before|in|if) (?:the )?(?:[\w.`]+ ){0,3}"
            rf"`?[\w.]*(?:{_ENDING})\b"
        ),
        "hint:blocks-loop": r"\b(?:un)?block(?:s|ed|ing)? (?:the |an? )?(?:event )?loop",
        "hint:unreleased": (
            r"\brelease[sd]? [\w.` ]{0,30}(?:semaphore|connections?|slot|permit|socket|handle)|"
            r"semaphore .{0,30}released|unclosed|resourcewarning|orphan|file descriptor|\bfds?\b|"
            r"never closed|not (?:being )?closed|leak(?:s|ed|ing)?\b(?! exception)|"
            r"close (?:all|the|session|connection|socket)s? [\w ]{0,40}(?:on|after|in case of) "
            r"(?:an )?(?:error|exception|failure)|need to be removed"
        ),
        "hint:interrupt": (
            r"keyboardinterrupt|ctrl[-+ ]?c|baseexception|generatorexit|cancell?ed ?error|cancell?ation"
        ),
        "hint:endless": (
            r"infinite loop|endless|100% cpu|spin|never (?:return|finish|complet|wake|resolv)\w*|"
            r"forever|\bhang(?:s|ing)?\b|\bhung\b|\bstuck\b|stall"
        ),
        "hint:loop-life": (
            r"never awaited|no (?:running|current) event loop|event loop is closed|"
            r"(?:closed|different|wrong|new|running|existing|default) (?:event )?loops?|"
            r"event loop (?:doesn.t|does not|policy)|nest(?:ed|ing)|lifespan|startup|initiali[sz]"
        ),
        "hint:threads": (
            r"thread[- ]?safe|from (?:an?other|multiple|other|different|several) threads?|free-?thread|"
            r"between threads|per[- ]thread|singleton|"
            r"concurrent (?:updates?|modification|access|instantiation)"
        ),
        "hint:together": (
            r"\brac(?:e|es|ing|y)\b|at the same time|simultaneous|concurrent(?:ly)?|in[- ]flight|stale|"
            r"outdated|out of order|meanwhile|toctou|lost"
        ),
    }.items()
}
"""Whole 1 when a title has it, a third when only the text below it does."""
_EVIDENCE: dict[str, dict[str, float]] = {
    "deadlock": {"title:deadlock": 5.0, "text:deadlock": 2.0, "test:named-deadlock": 2.5,
                 "test:remarks-deadlock": 1.0, "fix:remarks-deadlock": 1.0, "hint:blocks-loop": 4.5},
    "cancellation": {"title:cancel": 2.6, "text:cancel": 0.7, "test:named-cancel": 1.0,
                     "fix:catches-cancel": 0.6, "fix:cancels": 0.3, "test:cancels": 0.2,
                     "test:remarks-cancel": 0.3, "fix:remarks-cancel": 0.3, "hint:interrupt": 1.0},
    "race": {"title:race": 3.6, "text:race": 1.2, "test:named-race": 1.4, "test:remarks-race": 0.8,
             "fix:remarks-race": 0.8, "fix:says-race": 0.5, "title:lock": 0.7, "fix:locks": 0.4,
             "fix:says-file": 0.6, "test:at-once": 0.4, "hint:together": 0.6},
    "hang": {"title:hang": 4.0, "text:hang": 1.0, "test:named-hang": 1.2, "title:timeout": 0.5,
             "test:remarks-hang": 0.4, "fix:remarks-hang": 0.5, "hint:endless": 1.5},
    "leak": {"title:leak": 3.6, "text:leak": 0.8, "test:named-leak": 1.2, "hint:unreleased": 2.0},
    "shutdown": {"title:shutdown": 1.9, "text:shutdown": 0.4, "test:named-shutdown": 0.7,
                 "fix:closes": 0.4, "fix:remarks-shutdown": 0.3, "hint:ending": 1.2},
    "context": {"title:context": 3.2, "text:context": 1.0, "fix:says-context": 1.6,
                "fix:remarks-context": 0.8, "test:named-context": 1.2, "fix:gains-context": 1.0,
                "test:says-context": 0.5},
    "thread-safety": {"title:thread": 1.9, "text:thread": 0.4, "test:named-thread": 0.8,
                      "fix:says-thread": 0.3, "fix:remarks-thread": 0.4, "hint:threads": 1.4},
    "lifecycle": {"title:loop": 2.3, "text:loop": 0.6, "fix:says-loop": 0.5, "test:named-loop": 0.9,
                  "hint:loop-life": 1.2},
    "other": {"always": 0.8},
}  # fmt: skip


def kind(signals: Mapping[str, float], title: str, body: str = "") -> str:
    """The kind of bug that the evidence speaks for most; ties go to the earlier in KINDS."""
    title, text = title[:LONGEST_TITLE], plain_body(body, 1500)
    known = {"always": 1.0, **signals}
    for name, pattern in _HINTS.items():
        known[name] = 1.0 if pattern.search(title) else 0.35 if pattern.search(text) else 0.0
    weighed = {
        name: sum(known.get(signal, 0.0) * weight for signal, weight in _EVIDENCE[name].items())
        for name in KINDS
    }
    return max(KINDS, key=lambda name: weighed[name])
