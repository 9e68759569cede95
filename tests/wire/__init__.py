"""Scripted AMQP conversations with a broker.

    pytest tests/wire                                      against a Warren node of its own
    WARREN_TEST_AMQP=127.0.0.1:5672 pytest tests/wire      against a broker that runs already
    WARREN_TEST_HTTP=127.0.0.1:15672                       where it has its HTTP API; without, nothing about users

Every expectation holds on RabbitMQ 3.10.8, except in `test_warren_*.py`: those are left out when the broker says it is
RabbitMQ. Where Warren may differ on purpose:

| conversation                              | RabbitMQ 3.10.8           | Warren                              |
|-------------------------------------------|---------------------------|-------------------------------------|
| unknown method, undecodable field table   | closes the socket at once | may send 501, 502, 503 or 540 first |
| undecodable content header                | 541 INTERNAL_ERROR        | may say 501 or 502 instead          |
| an error before the vhost is open         | hangs up, 3 s later       | hangs up, 3 s later or earlier      |
| a framing error                           | 501, hangs up 3 s later   | 501, hangs up, 3 s later or earlier |
| field tables nested thousands deep        | accepted                  | accepted, or 501, 502 or 506        |
| a body frame longer than announced        | becomes the body          | may close with 501 or 505           |
| type of a refused number, in the text     | its width: short, long... | may say signedint, or double        |
| the publish that finds memory low         | is held back              | may be let in                       |
| x-delivery-limit on a classic queue       | 406                       | works                               |
| the socket after a client's close         | waits 30 s for its end    | may hang up                         |
| x-consistent-hash, x-delayed-message      | plugins                   | built in                            |
| the order of x-death behind the newest    | changes with each death   | the next newest first               |
| requeue across consumers of a channel     | consumer by consumer      | in the order of the queue           |
| a message due behind a higher priority    | stays until touched       | expires in time                     |
| methods sent ahead of tx.commit-ok        | may be answered by 504    | are taken in order                  |
| unacked gets when qos(global) comes       | count for ever            | do not count                        |
"""
