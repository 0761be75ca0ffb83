"""`python -m expril`, and the installed command: an interrupt while the program still loads is one line, too."""

import sys


def main() -> None:
    """Run the command; ends in SystemExit."""
    try:
        from expril.commands.app import app

        app(prog_name="expril")
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; nothing of this command was kept\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
