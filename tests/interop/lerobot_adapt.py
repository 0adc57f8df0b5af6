"""Lets LeRobot run where it does not mean to: on Python 3.11, and with a torchvision whose own library cannot load.

What LeRobot does stays as it is. Only how types are written changes, and two operators that nobody calls are declared.
Usage: ``lerobot_adapt.py HOME``, where ``HOME/lerobot-*`` hold LeRobot and ``HOME/lib`` the virtual environment.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

TYPE_ALIAS = re.compile(r"^type (?=\w+ = )", re.MULTILINE)
GENERIC_CLASS = re.compile(r"^class (?P<name>\w+)\[(?P<parameters>[^\]]+)\](?:\((?P<bases>[^)]*)\))?:", re.MULTILINE)
GENERIC_FUNCTION = re.compile(r"^(?P<head>def \w+)\[(?P<parameters>[^\]]+)\](?=\()", re.MULTILINE)
FIRST_STATEMENT = re.compile(r"^(?:class |def |@|\w+ = )", re.MULTILINE)

OPERATORS = """
import torchvision.extension
if not torchvision.extension._has_ops():
    _missing = torch.library.Library("torchvision", "DEF")
    for _name in ("nms", "qnms"):
        _missing.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def parameter_names(parameters: str) -> list[str]:
    """Return the names of ``T: Bound, U``."""
    return [parameter.partition(":")[0].strip() for parameter in parameters.split(",")]


def for_python_311(source: str) -> str:
    """Write the type parameters of Python 3.12 in the words of Python 3.11."""
    declared: set[str] = set()

    def generic_class(match: re.Match[str]) -> str:
        names = parameter_names(match["parameters"])
        declared.update(names)
        generic = f"typing.Generic[{', '.join(names)}]"
        bases = ", ".join([match["bases"], generic] if match["bases"] else [generic])
        return f"class {match['name']}({bases}):"

    def generic_function(match: re.Match[str]) -> str:
        declared.update(parameter_names(match["parameters"]))
        return match["head"]

    source = TYPE_ALIAS.sub("", source)
    source = GENERIC_CLASS.sub(generic_class, source)
    source = GENERIC_FUNCTION.sub(generic_function, source)
    if not declared:
        return source
    declarations = "".join(f'{name} = typing.TypeVar("{name}")\n' for name in sorted(declared))
    first = FIRST_STATEMENT.search(source)
    place = first.start() if first else len(source)
    return f"{source[:place]}import typing\n\n{declarations}\n\n{source[place:]}"


def parses(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def adapt_lerobot(home: Path) -> None:
    for path in home.glob("lerobot-*/lerobot/**/*.py"):
        source = path.read_text(encoding="utf-8")
        if not parses(source):
            path.write_text(for_python_311(source), encoding="utf-8")


def declare_operators(home: Path) -> None:
    """Without its library, torchvision registers what it has not got and fails at import."""
    (path,) = home.glob("lib/python3.11/site-packages/torchvision/_meta_registrations.py")
    source = path.read_text(encoding="utf-8")
    if "_missing.define" not in source:
        before, decorator, after = source.partition("\n@")
        path.write_text(f"{before}\n{OPERATORS}\n{decorator}{after}", encoding="utf-8")


if __name__ == "__main__":
    adapt_lerobot(Path(sys.argv[1]))
    declare_operators(Path(sys.argv[1]))
