"""What a Prometheus server scrapes: every metric as text, under the names RabbitMQ gives them.
Not here: samples and rates for the pages (`admin.history`).
"""
