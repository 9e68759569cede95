"""What makes `format("warren")` known to Spark: it looks for modules named `pyspark_...` and registers what they offer.

Not here: the data source itself (`warren.spark.source`).
"""

from warren.spark.source import WarrenDataSource as DefaultSource

__all__ = ["DefaultSource"]
