"""The command `expril`, a file a role."""
