"""Options and fixtures of the suite: the programs under test, and their expected failures."""

import re

import pytest

from expril_conformance.program import Program

SIDES = ("learner", "curator")


def pytest_addoption(parser):
    for side in SIDES:
        parser.addoption(f"--{side}", default="", help=f"command of the {side} under test")


def pytest_configure(config):
    config.programs = {side: Program(config.getoption(f"--{side}")) for side in SIDES if config.getoption(f"--{side}")}


def pytest_unconfigure(config):
    for program in getattr(config, "programs", {}).values():
        program.stop()


def patterns_of(program):
    """The patterns of a program's expected failures."""
    path = program.expected_failures
    if path is None or not path.is_file():
        return []
    lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line]


def pytest_collection_modifyitems(config, items):
    for side, program in config.programs.items():
        for pattern in patterns_of(program):
            matcher = re.compile(".*".join(map(re.escape, pattern.split("*"))))
            matches = [item for item in items if side in item.fixturenames and matcher.fullmatch(item.name)]
            if not matches and not config.getoption("keyword"):
                raise pytest.UsageError(f"{program.expected_failures}: no test is called {pattern}")
            for item in matches:
                item.add_marker(pytest.mark.xfail(strict=True, reason=f"named in {program.expected_failures}"))


def program_of(request, side):
    if side not in request.config.programs:
        pytest.skip(f"no program: --{side} COMMAND")
    return request.config.programs[side]


@pytest.fixture
def learner(request):
    return program_of(request, "learner")


@pytest.fixture
def curator(request):
    return program_of(request, "curator")
