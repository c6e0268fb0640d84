"""The command group `tidegate`; subcommands are imported only when they are used."""

from __future__ import annotations

import importlib
import os

import click

# Read by OpenBLAS when numpy is imported. The contextual model multiplies small matrices in the event loop;
# more threads only wait for each other there, on a busy machine for milliseconds.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_COMMANDS = {
    "approvals": ("gateway.cli.approvals", "approvals"),
    "admin": ("gateway.cli.admin", "admin"),
    "audit": ("gateway.cli.audit", "audit"),
    "classify": ("gateway.cli.classify", "classify"),
    "evaluate": ("gateway.cli.evaluate", "evaluate"),
    "limits": ("gateway.cli.limits", "limits"),
    "policy": ("gateway.cli.policy", "policy"),
    "protocol": ("gateway.cli.protocol", "protocol"),
    "serve": ("gateway.cli.serve", "serve"),
    "token": ("gateway.cli.token", "token"),
    "up": ("gateway.cli.up", "up"),
}


class _LazyGroup(click.Group):
    """A group that imports a subcommand's module when it is called or its help is shown."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in alphabetical order."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, or None for an unknown name."""
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tidegate", prog_name="tidegate")
def main() -> None:
    """Tidegate: data decides where an LLM request may go."""
