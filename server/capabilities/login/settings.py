"""Login over HTTP: static tokens, and the identity provider whose tokens are accepted."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from server.config.settings.section import Section
from server.config.values import InvalidValueError, NonEmpty, SecretStr

_SCOPE = r"^[\x21\x23-\x5b\x5d-\x7e]+$"
# As RFC 6749 defines it; it stands in a header in quotes.

_PLAIN = r"[\x21\x23-\x5b\x5d-\x7e]+"

_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class SigningAlgorithm(StrEnum):
    """Algorithms of signatures by a private key; shared secrets and `none` cannot be chosen."""

    RS256 = "RS256"
    RS384 = "RS384"
    RS512 = "RS512"
    PS256 = "PS256"
    PS384 = "PS384"
    PS512 = "PS512"
    ES256 = "ES256"
    ES384 = "ES384"
    ES512 = "ES512"
    EDDSA = "EdDSA"


class LoginSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Login of clients over HTTP. With `tokens` or `issuer`, every request needs a token in its header."""

    tokens: bool = False
    """Whether the static tokens of `skillserve token` are accepted."""
    issuer: str | None = None
    """The identity provider whose access tokens are accepted: its `https://` address exactly as in the claim `iss`.
    It needs `audience`."""
    audience: str | None = None
    """The value in the claim `aud` of tokens that are meant for this server, usually the address of its MCP endpoint
    (RFC 8707). All other tokens are refused."""
    resource: str | None = None
    """The address of the MCP endpoint as clients know it, for the protected-resource metadata. Set it if `audience` is
    not an address."""
    jwks_url: str | None = None
    """The address of the provider's public keys. Without it, the provider's metadata names the address."""
    algorithms: tuple[SigningAlgorithm, ...] = (
        SigningAlgorithm.RS256,
        SigningAlgorithm.ES256,
        SigningAlgorithm.EDDSA,
    )
    """Signature algorithms that are accepted in JWTs."""
    leeway_seconds: Annotated[int, Meta(ge=0, le=300)] = 30
    """Seconds by which the provider's clock may differ from this machine's clock."""
    introspection_url: str | None = None
    """The address at which the provider is asked about tokens that are not JWTs (RFC 7662). Without it, such tokens are
    refused."""
    introspection_client_id: str | None = None
    """The client name with which the server asks about tokens."""
    introspection_client_secret: SecretStr | None = None
    """The secret of that client. There is no flag for it, because other users can see command lines."""
    roles_claim: NonEmpty = "roles"
    """The claim with a user's roles: a list, or a text with spaces between the roles. A path with dots names a claim in
    another one, such as `realm_access.roles` of Keycloak."""
    default_role: NonEmpty | None = None
    """The role of users of the provider whose tokens name none."""
    admin_roles: tuple[NonEmpty, ...] = ("admin",)
    """The roles of those who may use the admin routes, and read the metrics. Without any, only the admin token opens
    them. A name of your own keeps a role `admin` that the provider gives for other purposes from opening them."""
    required_scopes: tuple[Annotated[str, Meta(pattern=_SCOPE)], ...] = ()
    """Scopes that each token of the provider must have."""
    advertised_scopes: tuple[Annotated[str, Meta(pattern=_SCOPE)], ...] = ()
    """Scopes that clients should request, where the provider calls them otherwise than in its tokens: Entra grants
    `api://ID/use` as `use`. By default the required ones."""

    def __post_init__(self) -> None:
        for name in ("issuer", "resource", "jwks_url", "introspection_url"):
            value = getattr(self, name)
            if value is not None and not is_safe_address(value):
                raise InvalidValueError("expected an https:// address, or http:// of this machine", (name,))
        if self.issuer is not None:
            self._check_provider()
        elif self.introspection_url is not None:
            raise InvalidValueError("login.issuer is missing; it names the provider", ("introspection_url",))
        if not self.algorithms:
            raise InvalidValueError("expected at least one algorithm", ("algorithms",))

    def _check_provider(self) -> None:
        if not self.audience:
            message = "login.audience is missing; without it, the server would accept tokens for other servers"
            raise InvalidValueError(message, ("issuer",))
        if self.resource is None and not is_safe_address(self.audience):
            message = "it is not an address, so set login.resource to the address of the MCP endpoint"
            raise InvalidValueError(message, ("audience",))
        if self.introspection_url is not None and not (
            self.introspection_client_id and self.introspection_client_secret
        ):
            message = "login.introspection_client_id and login.introspection_client_secret are needed with it"
            raise InvalidValueError(message, ("introspection_url",))

    @property
    def required(self) -> bool:
        """Whether requests over HTTP need a token."""
        return self.tokens or self.issuer is not None

    @property
    def requested_scopes(self) -> tuple[str, ...]:
        """The scopes that clients are told to request."""
        return self.advertised_scopes or self.required_scopes

    @property
    def endpoint(self) -> str:
        """The address of the MCP endpoint as clients know it; there is one with every issuer."""
        return self.resource or self.audience or ""


def is_safe_address(url: str) -> bool:
    """Tell whether an address is protected by TLS or belongs to this machine, and contains no secret."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.query or parts.fragment or not re.fullmatch(_PLAIN, url):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and host in _LOCAL)


SECTION: Final = Section(
    name="login", kind=LoginSettings, prefix="login_", secrets=frozenset({"introspection_client_secret"})
)
