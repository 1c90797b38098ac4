"""What each change class means: one file a family."""
