"""Words of advice and of causes: how somebody says what to do about a bug, or why it is there."""

from __future__ import annotations

import re

VERBS = (
    "add|use|wrap|replace|move|hold|acquire|check|guard|protect|swap|introduce|store|keep|shield|catch|"
    "call|await|set|clear|remove|reorder|serialise|serialize|recheck|re-check|change|make|put|take|"
    "switch|drop|delete|discard|cancel|schedule|track|save|copy|capture|pass|insert|initialise|"
    "initialize|"
    "reset|restore|lock|iterate|loop|test|handle|suppress|record|register|create|convert|assign|"
    "increment|"
    "decrement|compare|look|snapshot|defer|delay|skip|avoid|override|implement|modify|edit|"
    "refactor|rewrite"
)
GERUNDS = (
    "adding|using|wrapping|replacing|moving|holding|acquiring|checking|guarding|protecting|swapping|"
    "introducing|storing|keeping|shielding|catching|calling|awaiting|setting|clearing|removing|"
    "reordering|"
    "serialising|serializing|rechecking|re-checking|changing|making|putting|taking|switching|dropping|"
    "deleting|discarding|scheduling|tracking|saving|copying|capturing|passing|inserting|resetting|"
    "restoring|locking|handling|suppressing|recording|registering|creating|converting|assigning"
)
ADVICE = re.compile(
    rf"\b(?:should|must|needs? to|has to|have to|ought to|could|can|you may|please|simply|just|instead|"
    rf"to fix (?:this|it|that)[ ,]*|i would|we should|one should|recommend(?:ed)? to|better to|"
    rf"enough to|"
    rf"suffices to|sufficient to|consider|remember to|make sure to|"
    rf"be sure to)\s+(?:\w+\s+){{0,2}}?(?:{VERBS}|{GERUNDS})\b|"
    rf"\b(?:by|consider|suggest|recommend|requires?|means)\s+(?:\w+\s+)?(?:{GERUNDS})\b|"
    rf"(?:^|[-*.:;]\s+)(?:{VERBS})\b",
    re.IGNORECASE,
)
REMEDY = re.compile(
    r"\bto (?:fix|solve|repair|resolve) (?:this|it|the|that)\b|\b(?:fix|solution|remedy|"
    r"workaround|patch) "
    r"(?:is|was|would be|should|could|consists|here)\b|\bcan be (?:fixed|solved|repaired|"
    r"avoided|resolved) (?:by|with|if)\b|"
    r"\b(?:hint|tip|suggested (?:fix|change)|possible (?:fix|solution)|proposed (?:fix|change|"
    r"solution))\b",
    re.IGNORECASE,
)
CAUSE = re.compile(
    r"\broot cause\b|\b(?:bug|cause|culprit|problem|fault|mistake|error|defect) (?:is|lies|sits|was) "
    r"(?:that|in|because|with|inside|within|here)\b|\bcaused by\b|\bdue to (?:the|a|an|"
    r"its) (?:missing|lack)\b|"
    r"\b(?:forgets?|forgot|neglects?|fails?) to (?:"
    + VERBS
    + r")\b|\bthe code (?:does|doesn't|never|only|should|in)\b|"
    r"\b(?:is|are) (?:never|not) (?:cleared|reset|removed|released|discarded|awaited|held|"
    r"guarded|protected|shielded|locked|popped|set)\b",
    re.IGNORECASE,
)
PLAIN_CAUSE = re.compile(
    r"\broot cause\b|\bthe code\b|\b(?:forgets?|forgot|neglects?) to\b", re.IGNORECASE
)
CODE_WORDS = frozenset({"finally", "shield", "weakref", "deque", "contextlib", "nullcontext"})
COMMON = frozenset(
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
