"""The name by which a class, function or method is known outside its module."""

from __future__ import annotations

from race.core.interface.symbols import Class, Function
from race.core.interface.tree import SourceTree


def public_name(tree: SourceTree, symbol: Class | Function, receiver: Class | None = None) -> str:
    """The shortest dotted name that leads to a symbol from outside.

    A method is named after `receiver`, the class that it is used of, when that is no test's class.
    """
    if isinstance(symbol, Function) and symbol.owner is not None:
        owner = receiver if receiver and not tree.is_test(receiver.path) else symbol.owner
        return f"{public_name(tree, owner)}.{symbol.name}"
    qualname = symbol.qualname if isinstance(symbol, Class) else symbol.name
    head = qualname.split(".")[0]
    parts = symbol.module.split(".")
    target = tree.get(symbol.module, head)
    for cut in range(1, len(parts)):
        package = ".".join(parts[:cut])
        if target is not None and tree.get(package, head) is target:
            return f"{package}.{qualname}"
    return f"{symbol.module}.{qualname}"
