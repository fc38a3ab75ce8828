"""Report results to people and programs: views decide what is shown, dialects and pages render it."""
