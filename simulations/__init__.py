"""Both sides in one process: scenarios, the paper reproduced, peers compared, reports, the command `expril`."""
