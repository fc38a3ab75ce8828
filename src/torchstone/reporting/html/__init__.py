"""The HTML pages, built from elements that escape by default."""
