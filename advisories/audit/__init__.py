"""Which models a source tree, a Hub cache or an SBOM uses, and what the advisories say about them."""
