"""Unresolved: what to say of names that the source tree does not define."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from harness.load.spec import near
from harness.load.tree import Module


def unresolved_names(names: Mapping[str, str]) -> str:
    """The message that lists all unresolved names, each with its explanation and option."""
    count = f"{len(names)} names have" if len(names) > 1 else "1 name has"
    lines = "".join(f"\n  {name} {text}" for name, text in sorted(names.items()))
    return (
        f"{count} no value in the source tree:{lines}\n"
        "Add these options, with the VALUE that the name has where the function runs, "
        "or list the names in [tool.bitgate.stubs]."
    )


def too_many_modules(top: str, limit: int, names: Collection[str]) -> str:
    """What to say of a function whose definitions reach through the whole package."""
    leads = f"; cut it off with --stub NAME=VALUE for what leads there: {', '.join(sorted(names))}" if names else ""
    return f"the definitions it needs reach through more than {limit} modules of {top}{leads}"


def why_unbound(source: Module, name: str) -> str:
    """Why a module of the tree has no value for ``name``."""
    if "__getattr__" in source.bindings:
        return "the module computes it in __getattr__"
    if name in source.typing_only:
        return "it is bound for type checkers only"
    return f"{source.name} does not define it{near(name, source.bindings)}"


def no_such_name(source: Module | None, module: str, name: str) -> str:
    """What to say of a candidate function that does not exist."""
    if source is None:
        return f"there is no module {module}; check the path"
    owners = [
        f"{node.name}.{name}"
        for node in source.body
        if isinstance(node, ast.ClassDef)
        and any(isinstance(member, ast.FunctionDef) and member.name == name for member in node.body)
    ]
    if owners:
        return f"{source.file}: {name!r} is a method; did you mean {' or '.join(owners)}?"
    reason = " (it is bound for type checkers only)" if name in source.typing_only else ""
    known = [other for other in source.bindings if not other.startswith("__")]
    return f"{source.file}: there is no {name!r} at module level{reason}{near(name, known)}"
