"""The commands, their arguments and options, as ``--help`` knows them."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer

from reference_pages.markdown import table
from replica_client.cli import app, main, program
from replica_client.cli.program import PROGRAM

_EXAMPLE = re.compile(r"Example:\s+(.*)", re.DOTALL)


def commands() -> str:
    """Every command with its options."""
    parts = []
    for name in app.COMMANDS:
        group: Any = typer.main.get_command(app.make_app(name))
        parts += _command(group.commands[name], f"{PROGRAM} {name}", 2)
    return "\n".join(parts)


def _command(command: Any, path: str, level: int) -> list[str]:
    out = [f"{'#' * level} {path.removeprefix(PROGRAM + ' ')}\n"]
    inner = getattr(command, "commands", None)
    out.append(f"{_prose(command.help or '')}\n")
    if inner:
        for name, one in inner.items():
            out += _command(one, f"{path} {name}", level + 1)
        return out
    context = command.make_context(path, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    out.append(f"```text\n{path} {usage}\n```\n")
    parameters = [one for one in command.params if one.name != "help"]
    if parameters:
        out.append(
            table(("", "meaning"), [(_names(one), _meaning(one, context)) for one in parameters])
        )
    epilog = command.epilog or ""
    match = _EXAMPLE.search(epilog)
    before = epilog[: match.start()].strip() if match else epilog.strip()
    if before:
        out.append(f"{_prose(before)}\n")
    if match:
        out.append(f"```sh\n{match[1].strip()}\n```\n")
    return out


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or str(parameter.name).upper()}`"
    value = "" if parameter.is_flag else f" {parameter.metavar or str(parameter.name).upper()}"
    return f"`{', '.join((*parameter.opts, *parameter.secondary_opts))}{value}`"


def _meaning(parameter: Any, context: Any) -> str:
    text = " ".join((parameter.help or "").split())
    default = parameter.get_default(context)
    if callable(default) or default in (None, False, "", [], ()):
        default = None
    return f"{text} Default: `{default}`." if default is not None else text


def _prose(text: str) -> str:
    r"""Paragraphs; typer marks one that keeps its lines with \b, and those indented are code."""
    out = []
    for part in text.replace("\b\n", "").split("\n\n"):
        if part.startswith("    ") or "\n    " in part:
            lines = part.splitlines()
            head = [line for line in lines if not line.startswith("    ")]
            code = [line.removeprefix("    ") for line in lines if line.startswith("    ")]
            if head:
                out.append(" ".join(head))
            out.append("```text\n" + "\n".join(code).rstrip() + "\n```")
        else:
            out.append(" ".join(part.split()).replace("<", "&lt;"))
    return "\n\n".join(out)


def exit_statuses() -> str:
    """What the command's exit status means."""
    meanings = {
        program.DONE: "done",
        program.FAULTY: "the input or the source is faulty; one line says what, where and what to do",
        program.WRONG_USAGE: "wrong usage",
        program.INTERRUPTED: "interrupted, with the position saved",
        program.NOT_CURRENT: "with `--strict`: a table of the lake is not current",
        program.UNREAD: "nobody reads the output any more; the position is that of what was read",
    }
    stated = set(re.findall(r"\b\d+\b", inspect.getdoc(main.main) or ""))
    if stated != {str(status) for status in meanings}:
        raise ValueError(f"main() tells of {sorted(stated)}, this table of {sorted(meanings)}")
    return table(("status", "meaning"), [(str(status), text) for status, text in meanings.items()])
