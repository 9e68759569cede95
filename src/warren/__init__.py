"""Warren: an AMQP 0-9-1 message broker in typed Python.

Not here: anything but the version. Import what you need from the package that answers for it.
"""

__version__ = "0.1.0"
