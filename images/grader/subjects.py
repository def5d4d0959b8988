"""What can be said something about at the end of a function: names that stand for something there.

With another fix a test may take another way through its branches and loops, so that a name that is bound
in one of them may stand for nothing. Standard library only, Python 3.8 and newer.
"""

from __future__ import annotations

import ast
import builtins

MOST = 3
"""So many names of a function are used."""
_COMMON = frozenset(
    {"pytest", "asyncio", "self", "mock", "time", "sys", "os", "threading", "Any", "anyio", "trio"}
)


def subjects(
    function: ast.AST, nodes: list[ast.AST], blocks: list[list[ast.AST]]
) -> tuple[list[str], bool]:
    """Names, and whether they are bound whenever the end of the last of these blocks is reached.

    What the test has made itself comes before what it may have from the product. `nodes` are the
    function's own.
    """
    arguments = [entry.arg for entry in [*function.args.args, *function.args.kwonlyargs]]
    changed = {
        node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    deleted = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)}
    direct = [node for block in blocks for node in block]
    bound = [name for node in reversed(direct) for name in _bound(node) if name not in deleted]
    made = [name for name in bound if name in _made(direct)]
    used = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
            and node.id not in changed and not hasattr(builtins, node.id)]  # fmt: skip
    for names in (made, [*bound, *arguments], used):
        found = _plain(names)
        if found:
            return found, True
    return _plain(sorted(changed - deleted)), False


def _plain(names: list[str]) -> list[str]:
    plain = [name for name in dict.fromkeys(names) if name not in _COMMON and name[0] != "_"]
    return plain[:MOST]


def _bound(node: ast.AST) -> list[str]:
    """Names that a statement binds, if it is run at all, in a block that is run to its end."""
    targets: list[ast.AST] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        targets = [node.target]
    elif isinstance(node, (ast.With, ast.AsyncWith)):
        targets = [item.optional_vars for item in node.items if item.optional_vars is not None]
    return [inner.id for target in targets for inner in ast.walk(target)
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)]  # fmt: skip


def _made(statements: list[ast.AST]) -> set[str]:
    """Names that stand for an object, a list or the like that the function makes."""
    made = set()
    for node in statements:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            called = node.value.func if isinstance(node.value, ast.Call) else None
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name[:1].isupper() or isinstance(node.value, (ast.List, ast.Dict, ast.Set, ast.ListComp)):
                made.add(node.targets[0].id)
    return made
