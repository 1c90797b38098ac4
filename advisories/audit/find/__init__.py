"""Finders: one module a notation; each reads one text and gives the model references in it."""
