from harbour._pool import Pool, PoolClosed

__all__ = ["Pool", "PoolClosed"]
