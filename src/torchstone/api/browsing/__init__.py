"""What the dashboard shows, one function a page: an open store and the filters of an address in, a frozen view out."""
