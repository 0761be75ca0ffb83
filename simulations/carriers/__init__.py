"""How a simulation carries envelopes: over Flower in one process, by plain calls, and with faults."""
