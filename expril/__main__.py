"""`python -m expril`."""

from expril.command import app

app(prog_name="expril")
