"""The reader of messages that `load` has published: JSON arrays as rows.

    messages = spark.read.format("warren").options(url=URL, stream="orders").load()
    rows = split(messages, "id bigint, amount decimal(12, 2), day date")
    apart = unsplit(messages, "id bigint, amount decimal(12, 2), day date")

Each element of each array is a row of `split`, or, if it does not fit the schema, of `unsplit`; so is a message that is
no array. Both are ordinary DataFrames and may be streaming. Numbers are exact: a decimal may be written as a number or
as a string.

Not here: reading messages (`warren.spark`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

WHOLE: Final = "_warren_whole"
ELEMENTS: Final = "_warren_elements"
PLACE: Final = "_warren_place"
TEXT: Final = "_warren_text"
ROW: Final = "_warren_row"
CORRUPT: Final = "_warren_corrupt"
SPACE: Final = " \t\r\n"
NO_ARRAY: Final = "is no JSON array in UTF-8"
NO_RECORD: Final = "is not what the schema says"
ORIGINS: Final = ("partition", "offset", "message_id", "exchange", "routing_key")


def split(messages: DataFrame, schema: StructType | str) -> DataFrame:
    """The records, with the columns of the schema."""
    return _read(messages, schema).where(~_is_bad()).select(f"{ROW}.*").drop(CORRUPT)


def unsplit(messages: DataFrame, schema: StructType | str) -> DataFrame:
    """What `split` leaves out: its message, its index there (null: the whole message), its text and the reason."""
    origins = [name for name in ORIGINS if name in messages.columns]
    reason = sql.when(sql.col(PLACE).isNull(), sql.lit(NO_ARRAY)).otherwise(sql.lit(NO_RECORD))
    text = sql.coalesce(sql.col(TEXT), sql.col(WHOLE))
    found = _read(messages, schema).where(_is_bad())
    return found.select(*origins, sql.col(PLACE).alias("place"), text.alias("text"), reason.alias("reason"))


def split_all(messages: DataFrame, schema: StructType, corrupt: str) -> DataFrame:
    """Both, after the messages' other columns; a row of `unsplit` has its text in the column `corrupt`."""
    text = sql.when(_is_bad(), sql.coalesce(sql.col(TEXT), sql.col(WHOLE))).alias(corrupt)
    own = [name for name in messages.columns if name != "body"]
    return _read(messages, schema).select(*own, *(sql.col(f"{ROW}.`{name}`") for name in schema.names), text)


def _read(messages: DataFrame, schema: StructType | str) -> DataFrame:
    """Each element with its index, text and row; a message that is no array is one element without an index."""
    whole = messages.withColumn(WHOLE, sql.col("body").cast("string"))
    # of Spark's types for JSON, this one keeps numbers as written
    arrays = whole.withColumn(ELEMENTS, sql.try_variant_get(sql.try_parse_json(_sound(WHOLE)), "$", "array<variant>"))
    exploded = arrays.select("*", sql.posexplode_outer(ELEMENTS).alias(PLACE, TEXT)).withColumn(TEXT, sql.to_json(TEXT))
    # an empty array has no records, and is valid
    found = exploded.where(sql.col(PLACE).isNotNull() | sql.col(ELEMENTS).isNull())
    return found.withColumn(
        ROW, sql.from_json(TEXT, _with_corrupt(schema), {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
    )


def _sound(name: str) -> Column:
    """The text, null if it is invalid or does not end as an array: Spark stops parsing early."""
    text = sql.col(name)
    return sql.when(sql.is_valid_utf8(text) & sql.rtrim(text, sql.lit(SPACE)).endswith("]"), text)


def _is_bad() -> Column:
    is_object = sql.coalesce(sql.col(TEXT).startswith("{"), sql.lit(False))
    return ~is_object | sql.col(f"{ROW}.{CORRUPT}").isNotNull()


def _with_corrupt(schema: StructType | str) -> StructType | str:
    if isinstance(schema, str):
        return f"{schema}, {CORRUPT} string"
    return StructType([*schema.fields]).add(CORRUPT, "string")
