"""The command `expril audit game`: the distinguishing game on somebody else's mechanism."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from expril.commands.audit import audit_app
from expril.commands.terminal import Json, plain_errors, print_json, wide_console

if TYPE_CHECKING:
    from expril.audit.game import Game

_DRAWS, _ERROR_RATE = 100_000, 0.05


@audit_app.command("game")
def game(
    where: Annotated[
        str, typer.Argument(help="A function without arguments that returns a Game.", metavar="MODULE:FUNCTION")
    ],
    claimed: Annotated[str | None, typer.Option(help="Epsilon to hold it to, in place of the game's own.")] = None,
    draws: Annotated[int, typer.Option(min=400, max=10**8, help="Outcomes from either input.")] = _DRAWS,
    error_rate: Annotated[
        float, typer.Option(help="Chance that a correct mechanism is called broken, at most.")
    ] = _ERROR_RATE,
    json_: Json = False,
) -> None:
    """Play the distinguishing game on any Python mechanism; docs/game.md tells how to state one.

    The module is imported and run: use it on code that you would run anyway. It is looked for in this folder first.

    Exit status: 0 not broken by this game, 1 the claim is broken, 2 the game cannot be played.
    """
    with plain_errors(part="simulations"):
        import sys
        from contextlib import redirect_stdout

        from msgspec import to_builtins

        from expril.audit.game import breaks, verdict_of

        with redirect_stdout(sys.stderr):  # what theirs prints is no result of ours
            attack = _find(where).play(draws=draws, error_rate=error_rate, claimed=claimed)
        broken = breaks(attack)
        if json_:
            print_json({"game": where, "broken": broken, "verdict": verdict_of(attack), **to_builtins(attack)})
        else:
            console = wide_console()
            colour = "bold red" if broken else "green"
            verdict, colon, rest = verdict_of(attack).partition(":")
            console.print(f"[{colour}]{verdict}[/]{colon}{escape(rest)}", highlight=False, soft_wrap=True)
            more, fewer = attack.shares
            rows = {
                "inputs": attack.neighbours,
                "event": attack.event,
                "its share": f"{more:.3%} of draws on which it was not chosen, and {fewer:.3%} under the other input",
                "error rate": f"{attack.error_rate:g}: so often, at most, is the lower bound above the true epsilon",
            }
            for name, text in rows.items():
                console.print(f"{name:12}{escape(text)}", highlight=False, soft_wrap=True)
        if broken:
            raise typer.Exit(1)


def _find(where: str) -> "Game":
    """The game that a function of a module gives; ConfigurationError where there is none."""
    import importlib
    import sys
    from pathlib import Path

    from expril.audit.game import Game
    from protocol.errors import ConfigurationError

    module_name, colon, name = where.partition(":")
    if not (colon and module_name and name):
        raise ConfigurationError(f"{where}: write the module and its function, such as my_mechanism:game")
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{module_name}: there is no such module in this folder or in this Python; name it without .py"
            ) from None
        raise ConfigurationError(f"{module_name} needs the module {error.name}, which is not installed") from error
    except SystemExit:
        raise ConfigurationError(
            f'{module_name} ends when it is imported; put what it does as a program under if __name__ == "__main__":'
        ) from None
    except Exception as error:
        raise ConfigurationError(f"{module_name} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigurationError(f"{module_name} has no function {name!r}; write one that returns a Game")
    try:
        found = function()
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{where} fails: {type(error).__name__}: {error}") from error
    if not isinstance(found, Game):
        raise ConfigurationError(
            f"{where} returns {type(found).__name__}; return a Game of expril.audit.game, see docs/game.md"
        )
    return found
