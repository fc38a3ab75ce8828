"""Text: foreign text made safe, credentials hidden, numbers formatted."""
