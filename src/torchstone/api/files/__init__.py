"""Reading, converting and showing files of results."""
