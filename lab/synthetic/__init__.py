"""Synthetic data sets side by side: ours, the peers', and the real records."""
