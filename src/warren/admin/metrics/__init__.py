"""What a Prometheus server reads: every figure as text, under the names RabbitMQ gives them."""
