"""Private records, read from where they lie, and the exact counts that are taken of them."""
