"""A witness in processes of their own, killed at every step that touches the disk.

    python -m witness_process STEPS COMMAND...     # the arguments of `expril`; STEP in them becomes the step's number

For each step a child runs the command and is killed by SIGKILL before its so-manieth call of the operating system that
writes; a second child runs the same command to its end. Prints one JSON list: (killed, the second child's status).
"""

import importlib
import json
import os
import signal
import sys

LOADED = (
    "expril.commands.app",
    "curator_node.key_files",
    "curator_node.ledger.view",
    "expril.files",
    "protocol.ledger.checkpoints",
    "expril.audit.witness",
)
WRITING = ("open", "fsync", "link", "mkdir", "replace", "rename", "unlink", "write")


def main(steps, command):
    for name in LOADED:  # once, for all children
        importlib.import_module(name)
    results = []
    for step in range(steps):
        own = [argument.replace("STEP", str(step)) for argument in command]
        killed = os.WIFSIGNALED(_child(own, kill_at=step))
        results.append((killed, os.waitstatus_to_exitcode(_child(own, kill_at=-1))))
    sys.stdout.write(f"{json.dumps(results)}\n")


def _child(command, kill_at):
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    if kill_at >= 0:
        _arm(kill_at)
    from expril.commands.app import app

    try:
        app(command)
    except SystemExit as end:
        os._exit(end.code or 0)
    os._exit(70)


def _arm(kill_at):
    """From now on the process dies before its call number `kill_at` of what writes."""
    left = [kill_at]

    def counted(call):
        def run(*arguments, **options):
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*arguments, **options)

        return run

    for name in WRITING:
        setattr(os, name, counted(getattr(os, name)))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
