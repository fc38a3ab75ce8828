"""Views: decide what a person is shown, once for every format."""
