"""The command lines of `warren pipeline`, one module for each job.

Standard output says what was done. Standard error has the progress and reasons for refusals.

Exit codes: 0 done; 1 refused or failed, or the job has findings; 2 wrong usage.

Not here: options of all jobs (`cli.pipeline.options`).
"""

import typer

from warren.cli.pipeline import audit, compensate, load, reconcile, report, trace

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback(epilog="Example: warren pipeline trace --lake lake --files var/traces")
def pipeline() -> None:
    """Spark jobs on the broker's traffic: archive, audit, reconcile and compensate."""


trace.add_to(app)
reconcile.add_to(app)
report.add_to(app)
audit.add_to(app)
compensate.add_to(app)
load.add_to(app)
