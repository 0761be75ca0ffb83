"""The experiments of the ExPriL paper, run again: its data sets, its algorithm and its tables."""
