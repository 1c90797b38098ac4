"""Telling subscribers: what goes into a message (pure), and the ways to send one."""
