"""A real Celery application: its worker is a process of its own, its results come back over AMQP."""
