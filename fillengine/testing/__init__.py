"""The harness for property-based tests of forms."""
