"""Faults, kills and full disks, and then calm: nothing may be lost, nothing may be there twice."""
