"""Prometheus metrics under RabbitMQ's names.

Not here: samples and rates for the pages (`admin.history`).
"""
