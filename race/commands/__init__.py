"""What comes before and after the stages: one module per command."""
