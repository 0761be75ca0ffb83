"""How right the stated risks are, over populations that are known exactly."""
