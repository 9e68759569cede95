"""Cipher suites in RabbitMQ's words."""

import pytest

from warren.admin.rabbitmq_json import suite_words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "aead")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "aead")),
        ("ECDHE-RSA-AES256-GCM-SHA384", ("ecdhe_rsa", "aes_256_gcm", "aead")),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", ("ecdhe_ecdsa", "chacha20_poly1305", "aead")),
        ("DHE-RSA-AES128-SHA256", ("dhe_rsa", "aes_128_cbc", "sha256")),
        ("AES128-SHA", ("rsa", "aes_128_cbc", "sha")),
    ],
)
def test_a_cipher_suite_is_shown_in_three_words(name: str, words: tuple[str, str, str]) -> None:
    assert suite_words(name) == words
