"""Sampling from a mollifier density: the figures and claims of the MBDE paper (Husain, Cranko and Nock), run again."""
