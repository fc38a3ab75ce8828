"""Result files of other benchmark tools."""
