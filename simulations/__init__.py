"""Both sides of studies on one machine: scenarios, data sets, carriers, runs and their reports."""
