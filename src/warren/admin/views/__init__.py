"""The JSON shapes of what operators read, field by field as RabbitMQ's management API has them."""
