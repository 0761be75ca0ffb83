"""Long experiments: finished cells on disk, and a runner whose processes share the work."""
