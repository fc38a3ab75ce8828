"""Runs on several hosts: who they are and how they talk."""
