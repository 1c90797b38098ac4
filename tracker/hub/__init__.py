"""Asking the Hub: an interface of upstreams, and the clients that speak it."""
