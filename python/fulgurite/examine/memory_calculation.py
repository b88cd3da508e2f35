"""Where Thunder has get_alloc_memory."""

from fulgurite.examine import get_alloc_memory

__all__ = ["get_alloc_memory"]
