"""Becomes another program that ends with the process that started it: `python -m simulations.carriers.guarded`.

It ends however that process ends. Linux sends SIGTERM for it. Elsewhere a program is only stopped by who started it,
as all of them do where they can.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def guarded(*command: str) -> list[str]:
    """The command line of a program that ends with this process; start it in the main thread."""
    return [sys.executable, "-m", "simulations.carriers.guarded", str(os.getpid()), *command]


def main(parent: str, *command: str) -> None:
    """Become the program."""
    if sys.platform == "linux":
        import ctypes  # noqa: PLC0415 - there alone

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != int(parent):  # it has ended already
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(*sys.argv[1:])
