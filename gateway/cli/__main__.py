"""`python -m gateway.cli` is the command `tidegate`."""

from gateway.cli.main import main

main(prog_name="tidegate")
