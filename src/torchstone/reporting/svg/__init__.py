"""Draw charts as SVG."""
