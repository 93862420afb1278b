"""Extraction: prompts, documents in, objects out; the pydantic decorator; JSON Lines runs."""
