"""Build the HTML pages, from elements that escape by default."""
