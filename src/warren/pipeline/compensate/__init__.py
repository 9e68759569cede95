"""Setting right what a reconciliation found: messages that resend, reverse or correct, a set number of times at most.

    actions ──▶ planning ──▶ attempts ──▶ job ──▶ the broker, or settling ──▶ an outbox

What is to be sent is decided from the result's table and from all attempts that there were. It is written down before
any of it is published (the intent), and marked as confirmed behind that. So a run that was killed is taken up where its
intent says, and a key's attempts are counted whether or not anybody saw them confirmed.

Not here: finding what is wrong (`pipeline.reconcile`), publishing (`pipeline.publishing`).
"""
