"""Sixty broken mechanisms and twenty right ones, frozen before the game was tried on them; docs/results/broken.md."""
