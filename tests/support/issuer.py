"""An issuer of access tokens on a free port of the loopback: OAuth 2 and OpenID Connect, on Authlib's server classes.

It has client credentials, authorization code with PKCE and a page to log in, refresh tokens, a key set, a discovery
document, and a page to log out. Every client may have every scope: the tests say which scopes they ask for.

Invariants: it answers when this exists. `rotate` signs with another key from then on and keeps the old one in the set;
`withdraw` takes a key out of the set. `fetches` counts how often the set was fetched. After `close` its port is free.

Not here: the node that trusts it.
"""

import json
import secrets
import threading
import time
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    AuthorizationServer,
    ClientMixin,
    OAuth2Error,
    OAuth2Request,
    TokenMixin,
    grants,
)
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oidc.core import UserInfo
from authlib.oidc.core.grants import OpenIDCode as OpenIDCodeBase
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey

AUDIENCE = "rabbitmq"
LIFE_S = 3600
CLIENT_SECRET = "client secret"


class Issuer:
    """One issuer; `url` is its name."""

    def __init__(self, port: int = 0, algorithm: str = "RS256") -> None:
        self.keys: list[RSAKey | ECKey] = []
        self.algorithm = algorithm
        self.life_s = LIFE_S
        self.fetches = 0
        # what /jwks answers instead of the set
        self.broken_set: tuple[int, bytes] | None = None
        self.rotate(algorithm)
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.oauth2 = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), name="issuer")
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/jwks"

    # -- keys

    def rotate(self, algorithm: str = "") -> str:
        """Sign with a new key; its name."""
        self.algorithm = algorithm or self.algorithm
        name = f"key-{secrets.token_hex(4)}"
        parameters: Any = {"kid": name, "use": "sig"}
        made: RSAKey | ECKey
        if self.algorithm.startswith("ES"):
            made = ECKey.generate_key("P-256", parameters)
        else:
            made = RSAKey.generate_key(2048, parameters)
        self.keys.append(made)
        return name

    def withdraw(self, name: str) -> None:
        self.keys = [key for key in self.keys if key.kid != name]

    def key_set(self) -> dict[str, Any]:
        return {"keys": [key.as_dict(private=False) for key in self.keys]}

    def public_pem(self) -> bytes:
        """The current key, for a node that has it in a file."""
        return self.keys[-1].as_pem(private=False)

    # -- tokens

    def token(self, scope: str | list[str] | None = "", *, user: str = "alice", **claims: Any) -> str:
        """A token with these claims; a claim of None is left out. `lives_s` and `kid` are no claims."""
        now = time.time()
        lives_s, kid = claims.pop("lives_s", self.life_s), claims.pop("kid", self.keys[-1].kid)
        whole = {"iss": self.url, "aud": AUDIENCE, "sub": user, "scope": scope, "exp": now + lives_s, **claims}
        whole["exp"] = whole["exp"] if whole["exp"] is None else int(whole["exp"])
        header = {"alg": self.algorithm, "typ": "at+jwt", "kid": kid}
        return jwt.encode(
            {name: value for name, value in header.items() if value is not None},
            {name: value for name, value in whole.items() if value is not None},
            self.keys[-1],
            [self.algorithm],
        )

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": self.jwks_url,
            "end_session_endpoint": f"{self.url}/logout",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }


class _Client(ClientMixin):  # type: ignore[misc]
    """Any client: a public one, or one with the secret."""

    def __init__(self, name: str) -> None:
        self.name = name

    def get_client_id(self) -> str:
        return self.name

    def get_default_redirect_uri(self) -> str:
        return ""

    def get_allowed_scope(self, scope: str) -> str:
        return scope

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return urlsplit(redirect_uri).hostname in ("127.0.0.1", "localhost")

    def check_client_secret(self, client_secret: str) -> bool:
        return client_secret == CLIENT_SECRET

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return True

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        return True


class _Code(AuthorizationCodeMixin):  # type: ignore[misc]
    """An authorization code, which is used once."""

    def __init__(self, code: str, request: Any) -> None:
        self.code = code
        self.client_id = request.client.get_client_id()
        self.redirect_uri = request.payload.redirect_uri
        self.scope = request.payload.scope or ""
        self.user = request.user
        self.nonce: str | None = request.payload.data.get("nonce")
        self.code_challenge = request.payload.data.get("code_challenge")
        self.code_challenge_method = request.payload.data.get("code_challenge_method")

    def get_redirect_uri(self) -> str:
        return str(self.redirect_uri)

    def get_scope(self) -> str:
        return str(self.scope)

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> int:
        return int(time.time())

    def get_acr(self) -> None:
        return None

    def get_amr(self) -> None:
        return None


class _RefreshToken(TokenMixin):  # type: ignore[misc]
    def __init__(self, client_id: str, scope: str, user: str) -> None:
        self.client_id = client_id
        self.scope = scope
        self.user = user

    def check_client(self, client: _Client) -> bool:
        return client.name == self.client_id

    def get_scope(self) -> str:
        return self.scope


class _CodeGrant(grants.AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")

    def save_authorization_code(self, code: str, request: Any) -> None:
        self.server.codes[code] = _Code(code, request)

    def query_authorization_code(self, code: str, client: _Client) -> _Code | None:
        found: _Code | None = self.server.codes.get(code)
        return found if found is not None and found.client_id == client.name else None

    def delete_authorization_code(self, authorization_code: _Code) -> None:
        self.server.codes.pop(authorization_code.code, None)

    def authenticate_user(self, authorization_code: _Code) -> str:
        return str(authorization_code.user)


class _RefreshGrant(grants.RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> _RefreshToken | None:
        found: _RefreshToken | None = self.server.refresh_tokens.get(refresh_token)
        return found

    def authenticate_user(self, refresh_token: _RefreshToken) -> str:
        return refresh_token.user

    def revoke_old_credential(self, refresh_token: _RefreshToken) -> None:
        tokens = self.server.refresh_tokens
        for name in [name for name, one in tokens.items() if one is refresh_token]:
            del tokens[name]


class _CredentialsGrant(grants.ClientCredentialsGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = ("client_secret_basic", "client_secret_post")


class _OpenIDCode(OpenIDCodeBase):  # type: ignore[misc]
    def __init__(self, issuer: Issuer) -> None:
        super().__init__()
        self._issuer = issuer

    def exists_nonce(self, nonce: str, request: Any) -> bool:
        return False

    def get_client_algorithm(self, client: _Client) -> str:
        return self._issuer.algorithm

    def get_client_claims(self, client: _Client) -> dict[str, Any]:
        return {"iss": self._issuer.url, "aud": [client.name]}

    def resolve_client_private_key(self, client: _Client) -> KeySet:
        return KeySet([self._issuer.keys[-1]])

    def generate_user_info(self, user: str, scope: str) -> UserInfo:
        return UserInfo(sub=user, name=user)


class _Request(OAuth2Request):  # type: ignore[misc]
    def __init__(self, method: str, uri: str, headers: dict[str, str], fields: dict[str, str]) -> None:
        # Authlib refuses plain HTTP, which is safe on the loopback
        super().__init__(method, uri.replace("http://", "https://", 1), headers=headers)
        self.payload = BasicOAuth2Payload(fields)

    @property
    def form(self) -> dict[str, str]:
        return dict(self.payload.data)

    @property
    def args(self) -> dict[str, str]:
        return dict(self.payload.data)


class _Server(AuthorizationServer):  # type: ignore[misc]
    """Authlib's server, without a framework: a request is (method, uri, headers, fields)."""

    def __init__(self, issuer: Issuer) -> None:
        super().__init__()
        self._issuer = issuer
        self.codes: dict[str, _Code] = {}
        self.refresh_tokens: dict[str, _RefreshToken] = {}
        self.register_grant(_CodeGrant, [CodeChallenge(required=True), _OpenIDCode(issuer)])
        self.register_grant(_RefreshGrant)
        self.register_grant(_CredentialsGrant)
        self.register_token_generator("default", self._generate)

    def query_client(self, client_id: str) -> _Client:
        return _Client(client_id)

    def save_token(self, token: dict[str, Any], request: Any) -> None:
        if "refresh_token" in token:
            made = _RefreshToken(request.client.name, token["scope"], str(request.user))
            self.refresh_tokens[token["refresh_token"]] = made

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: Any) -> OAuth2Request:
        if isinstance(request, OAuth2Request):
            return request
        method, uri, headers, fields = request
        return _Request(method, uri, headers, fields)

    def handle_response(self, status: int, body: Any, headers: Any) -> tuple[int, Any, list[tuple[str, str]]]:
        return status, body, list(headers)

    def _generate(
        self,
        grant_type: str,
        client: _Client,
        user: str | None = None,
        scope: str | None = None,
        expires_in: int | None = None,
        include_refresh_token: bool = True,
    ) -> dict[str, Any]:
        claims = {} if user else {"client_id": client.name}
        token = {
            "token_type": "Bearer",
            "access_token": self._issuer.token(scope or "", user=user or client.name, **claims),
            "expires_in": self._issuer.life_s,
            "scope": scope or "",
        }
        return {**token, "refresh_token": secrets.token_hex(16)} if include_refresh_token and user else token


_LOGIN_PAGE = """<!doctype html><title>Issuer</title><form method="post" action="/authorize">{fields}
<label>Account <input name="account" autofocus></label><button>Sign in</button></form>"""


def _handler_of(issuer: Issuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *words: Any) -> None:
            """The tests' output is theirs."""

        def do_OPTIONS(self) -> None:
            self._send(204, b"", [("access-control-allow-headers", "*"), ("access-control-allow-methods", "*")])

        def do_GET(self) -> None:
            path, fields = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
            if path == "/.well-known/openid-configuration":
                self._send_json(issuer.discovery())
            elif path == "/jwks":
                issuer.fetches += 1
                if issuer.broken_set is None:
                    self._send_json(issuer.key_set())
                else:
                    self._send(*issuer.broken_set, [])
            elif path == "/authorize":
                hidden = "".join(
                    f'<input type="hidden" name="{escape(name)}" value="{escape(value)}">'
                    for name, value in fields.items()
                )
                self._send(200, _LOGIN_PAGE.format(fields=hidden).encode(), [("content-type", "text/html")])
            elif path == "/logout":
                self._send(302, b"", [("location", fields["post_logout_redirect_uri"])])
            else:
                # browsers ask for an icon
                self._send(204 if path == "/favicon.ico" else 404, b"", [])

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            fields = dict(parse_qsl(body))
            headers = {name.title(): value for name, value in self.headers.items()}
            if self.path == "/token":
                request = ("POST", f"{issuer.url}/token", headers, fields)
                self._send_answer(issuer.oauth2.create_token_response(request))
            elif self.path == "/authorize":
                account = fields.pop("account")
                request = ("POST", f"{issuer.url}/authorize?{urlencode(fields)}", headers, fields)
                self._send_answer(self._authorized(request, account))
            else:
                self._send(404, b"", [])

        def _authorized(self, request: Any, account: str) -> Any:
            try:
                grant = issuer.oauth2.get_consent_grant(request, account)
            except OAuth2Error as error:
                return 400, dict(error.get_body()), []
            return issuer.oauth2.create_authorization_response(grant.request, grant_user=account, grant=grant)

        def _send_answer(self, answer: Any) -> None:
            status, body, headers = answer
            data = json.dumps(body).encode() if isinstance(body, dict) else str(body or "").encode()
            self._send(status, data, headers)

        def _send_json(self, document: Any) -> None:
            self._send(200, json.dumps(document).encode(), [("content-type", "application/json")])

        def _send(self, status: int, body: bytes, headers: list[tuple[str, str]]) -> None:
            self.send_response(status)
            for name, value in [("access-control-allow-origin", "*"), *headers]:
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
