from harbour._pool import Pool

__all__ = ["Pool"]
