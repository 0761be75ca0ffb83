"""How good a model is, from noisy counts: areas, rates, calibration, their intervals."""
