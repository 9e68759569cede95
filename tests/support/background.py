"""Background tasks for parts of a node that run without one. Failures are printed."""

import structlog

from warren.admin.background import BackgroundTasks


def background_tasks() -> BackgroundTasks:
    return BackgroundTasks(structlog.get_logger())
