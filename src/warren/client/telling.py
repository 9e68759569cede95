"""What is told of an error, to logs and to whoever looks at a parked message.

Databases tell the values of a statement that failed behind the first line of their errors (`[parameters: ...]`,
`DETAIL: Key (name)=(...)`), and a log is no place for the data of customers. So each error is told by its type and its
first line, and by where it was raised.

Not here: what becomes of a message that failed (`listening.retrying`), or of a job (`tables.leading`).
"""

import traceback

SENTENCE_LENGTH_MAX = 500

_CAUSE = "\nThe above was the direct cause of this:\n\n"
_CONTEXT = "\nWhile that was handled, this happened:\n\n"


def sentence(failure: BaseException) -> str:
    """Its type and its first line."""
    return f"{type(failure).__name__}: {failure}".partition("\n")[0][:SENTENCE_LENGTH_MAX]


def account(failure: BaseException) -> str:
    """Where it was raised and what led to it, as Python prints it but for the lines that may have values."""
    told: list[str] = []
    seen: set[int] = set()
    _tell(failure, told, seen)
    return "".join(told).rstrip("\n")


def _tell(failure: BaseException, told: list[str], seen: set[int]) -> None:
    seen.add(id(failure))
    before = failure.__cause__ or (None if failure.__suppress_context__ else failure.__context__)
    if before is not None and id(before) not in seen:
        _tell(before, told, seen)
        told.append(_CAUSE if failure.__cause__ is before else _CONTEXT)
    told.append("Traceback (most recent call last):\n")
    told += traceback.format_tb(failure.__traceback__)
    told.append(sentence(failure) + "\n")
    if isinstance(failure, BaseExceptionGroup):
        for each in failure.exceptions:
            told.append("\nOne of the group:\n\n")
            _tell(each, told, seen)
