"""Every strategy of ours and every peer on the same splits of the same data sets, at the same epsilon."""
