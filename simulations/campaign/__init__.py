"""What long experiments share: finished cells on disk, processes that divide the work, curators with records."""
