"""YAML as plain values, read fast.

PyYAML's loader in C is some thirty times as fast as ruamel.yaml, which is written in Python. But it
reads YAML 1.1, where `on` is a boolean and `010` is eight, and of a key that stands twice it takes
the last value. Here it has the scalars of YAML 1.2, and whatever ruamel.yaml might read otherwise
is left to that: dates, tags, keys that stand twice, versions, and all that is wrong. So is
everything where PyYAML has no such loader. Lines and comments only ruamel.yaml knows
(`experiment.parse`, `commands.changed`).
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, ClassVar

try:
    import yaml
    from yaml import CSafeLoader
except ImportError:
    CSafeLoader = None

#: Plain scalars of YAML 1.2 that are no text: tag, form, and with which letters they begin.
SCALARS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (
        "float",
        r"[-+]?[0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.[0-9_]+([eE][-+][0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("int", r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|[0-9_]+)", "-+0123456789"),
    ("merge", "<<", "<"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    # Nothing makes values of these here.
    ("unread", "[0-9]{4}-[0-9]{1,2}-[0-9].*|=", "0123456789="),
)


def _fast_loader() -> Any:
    """The loader in C for YAML 1.2; None where there is none."""
    if CSafeLoader is None:
        return None

    class Loader(CSafeLoader):
        """Refuses what it does not read as ruamel.yaml does."""

        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            """A mapping none of whose keys stands twice."""
            if isinstance(node, yaml.MappingNode):
                keys = [(key.tag, str(key.value)) for key, _ in node.value]
                if len(set(keys)) < len(keys):
                    raise yaml.YAMLError("a key stands twice")
            return super().construct_mapping(node, deep=deep)

    for name, form, first in SCALARS:
        tag = f"tag:yaml.org,2002:{name}"
        Loader.add_implicit_resolver(tag, re.compile(rf"^(?:{form})$"), list(first))
    Loader.add_constructor("tag:yaml.org,2002:int", _whole_number)
    return Loader


def _whole_number(loader: Any, node: Any) -> int:
    """The value of 12, 1_000, 0b101, 0o17 or 0x1f; zeros before a number say nothing."""
    text = loader.construct_scalar(node).replace("_", "")
    return int(text, 0 if text.lstrip("+-")[1:2] in ("b", "o", "x") else 10)


#: What reads most files.
FAST = _fast_loader()


class Wrong(Exception):
    """The text is no YAML."""


def load(text: str) -> Any:
    """The values of a text; raises `Wrong`."""
    # The first line may say which YAML it is.
    if FAST is not None and not text.startswith("%"):
        with contextlib.suppress(yaml.YAMLError, ValueError):
            return yaml.load(text, Loader=FAST)
    # Loading it takes as long as reading some ten experiments does without it.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise Wrong(str(error)) from error
