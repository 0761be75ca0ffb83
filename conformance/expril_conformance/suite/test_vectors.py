"""Every vector is read by the learner under test, which sees neither its name nor what is expected."""

import pytest

from expril_conformance import vectors

CASES = [(name, vector) for name, content in vectors().items() for vector in (*content["good"], *content["bad"])]
DECODING = {"decode", "canonical form"}


@pytest.mark.parametrize("vector", [pytest.param(vector, id=f"{name}/{vector['name']}") for name, vector in CASES])
def test_vector(learner, vector):
    answer = learner.ask("read", read=vector["read"], given=vector["given"])
    if "taken" in vector:
        assert "refused" not in answer, f"refused: {answer.get('why')}"
        taken = answer["taken"]
        assert {name: taken.get(name) for name in vector["taken"]} == vector["taken"]
    else:
        assert "refused" in answer, f"taken, though {vector['fault']}"
        accepted = DECODING if vector["rule"] in DECODING else {vector["rule"]}
        assert answer["refused"] in accepted, answer.get("why")
