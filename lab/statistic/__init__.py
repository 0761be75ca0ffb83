"""The study of statistics: how far private medians and quartiles are off, by method, against the number of records."""
