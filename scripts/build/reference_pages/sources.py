"""What can be said of a source: its URL, Spark's options, losses, faults of the testing source."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from typing import get_args

from reference_pages.markdown import bullets, summary, table, text_after
from replica_client import errors
from replica_client.options import options_on
from replica_client.stream.position import losses
from replica_client.testing import faults as fault_kinds


def url_parameters() -> str:
    """The parameters behind the ``?`` of a source's URL."""
    rows = [
        (f"`{name}`", option.said(option.kind.words, "url"), option.said(option.help, "url"))
        for name, option in options_on("url").items()
    ]
    rows.append(
        (
            "`option_file`",
            "a file",
            "a MySQL option file; its groups `client` and "
            "`replica_client` give what the URL leaves out",
        )
    )
    return table(("parameter", "value", "meaning"), rows)


def spark_options() -> str:
    """The options of the data source."""
    rows = [
        (f"`{name}`", option.said(option.kind.words, "spark"), option.said(option.help, "spark"))
        for name, option in options_on("spark").items()
    ]
    return table(("option", "value", "meaning"), rows)


def loss_kinds() -> str:
    """The kinds of losses."""
    meanings = bullets(text_after(losses, "LossKind"))
    if set(meanings) != set(get_args(losses.LossKind)):
        raise ValueError("the kinds of losses and their documentation differ")
    return table(("kind", "what is lost"), [(f"`{kind}`", meanings[kind]) for kind in meanings])


def faults() -> str:
    """The faults of the testing source, with their arguments."""
    kinds = [
        kind
        for kind in vars(fault_kinds).values()
        if inspect.isclass(kind)
        and issubclass(kind, fault_kinds.Fault)
        and kind is not fault_kinds.Fault
    ]
    rows = [
        (
            f"`{kind.__name__}`",
            ", ".join(f"`{field.name}`" for field in fields(kind) if field.name != "connection"),
            summary(kind),
        )
        for kind in kinds
    ]
    return table(("fault", "arguments", "what it does"), rows) + (
        "\nEvery fault takes `connection`: the number of the one connection that it is for, from 0; "
        "all by default.\n"
    )


def error_tree() -> str:
    """The tree of exceptions, as the module of errors draws it."""
    text = inspect.cleandoc(errors.__doc__ or "")
    drawn = text.split("::\n\n")[1].split("\n\nBytes from a peer")[0]
    lines = [line.removeprefix("    ") for line in drawn.splitlines()]
    named = set(re.findall(r"\b[A-Z]\w+Error\b", "\n".join(lines)))
    there = {name for name in vars(errors) if name.endswith("Error")}
    if named != there:
        raise ValueError(f"the tree of errors is not that of the module: {named ^ there}")
    return "```text\n" + "\n".join(lines).rstrip() + "\n```\n"
