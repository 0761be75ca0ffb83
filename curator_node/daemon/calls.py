"""Calls to a SuperLink. An answer is read only up to a limit, and every failure becomes one of four errors."""

import ssl
import time
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from protocol.errors import ConfigurationError, ExprilError
from protocol.flower_internals import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    FLWR_COMPONENT_NAME_METADATA_KEY,
    FLWR_PACKAGE_NAME_METADATA_KEY,
    FLWR_PACKAGE_VERSION_METADATA_KEY,
    TIMESTAMP_HEADER,
    package_name,
    package_version,
    public_key_to_bytes,
    sign_message,
)

CALL_SECONDS = 30.0
_LEAST_RETRY, _MOST_RETRY = 0.05, 2.0


class SuperLinkDownError(ExprilError):
    """The SuperLink gave no answer, or failed. A later call may succeed.

    Attributes:
        status: HTTP status; 0 without an answer.
    """

    def __init__(self, kind: str, status: int = 0) -> None:
        self.status = status
        super().__init__(kind)


class NotLetInError(SuperLinkDownError):
    """The SuperLink does not know this node (any more), or believes that its previous connection is alive."""


class GoneError(ExprilError):
    """The SuperLink no longer has a message or its run. The error's text is an HTTP status."""


class TooLargeError(ExprilError):
    """A message exceeds the policy's limit of length, and was not read."""


class Sender:
    """The only interceptor of Flower's client: it signs as a node, sends, and reads no answer beyond its limit.

    Flower's own interceptors load its server, end the process if versions differ, and read answers of any length.

    Args:
        http: sends the requests.
        key: signs as the node.
        limit: returns the most bytes of the answer to a request.
    """

    def __init__(self, http: httpx.Client, key: EllipticCurvePrivateKey, limit: Callable[[object], int]) -> None:
        self._http = http
        self._key = key
        self._limit = limit
        self._headers = {
            FLWR_PACKAGE_NAME_METADATA_KEY: package_name,
            FLWR_PACKAGE_VERSION_METADATA_KEY: package_version,
            FLWR_COMPONENT_NAME_METADATA_KEY: "SuperNode",
            FLEET_HTTP_PUBLIC_KEY_HEADER: b64encode(public_key_to_bytes(key.public_key())).decode(),
            "accept-encoding": "identity",
        }

    def intercept(self, context: Any, call_next: object) -> httpx.Response:  # noqa: ARG002
        """See Flower's `ProtobufClientInterceptor`; `call_next` reads without a limit, and is not called."""
        request, most = context.request, self._limit(context.message)
        now = datetime.now(UTC).isoformat()
        signature = b64encode(sign_message(self._key, now.encode())).decode()
        request.headers.update({**self._headers, TIMESTAMP_HEADER: now, FLEET_HTTP_SIGNATURE_HEADER: signature})
        answer = self._http.send(request, stream=True)
        try:
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise httpx.DecodingError("an answer that is packed", request=request)
            if int(answer.headers.get("content-length", 0)) > most:
                raise TooLargeError
            content = bytearray()
            for chunk in answer.iter_raw():
                content += chunk
                if len(content) > most:
                    raise TooLargeError
        finally:
            answer.close()
        return httpx.Response(answer.status_code, content=bytes(content), request=request)


def tls_context(ca: Path) -> ssl.SSLContext:
    """A TLS context that trusts one authority only.

    Raises:
        ConfigurationError: its certificate cannot be read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cafile=ca)
    except FileNotFoundError:
        raise ConfigurationError(f"no file {ca}; ask who keeps the SuperLink for its authority's certificate") from None
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{ca} is no certificate in PEM format ({type(error).__name__})") from None
    return context


def why_unreachable(address: str, ca: Path | None) -> str:
    """Why a SuperLink cannot be reached, in words; "" if it answers.

    Raises:
        ConfigurationError: the certificate of the SuperLink's authority cannot be read.
    """
    verify = False if ca is None else tls_context(ca)
    try:
        with httpx.Client(verify=verify, timeout=CALL_SECONDS / 3, trust_env=False) as http:
            http.get(f"{'http' if ca is None else 'https'}://{address}/")
    except httpx.ConnectError as error:
        if "certificate" in str(error).lower():
            return f"its certificate is not one of {ca}"
        return "nobody answers"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"no answer that makes sense ({type(error).__name__})"
    return ""


_UNKNOWN = (401, 403, 404, 409, 412)
"""Statuses by which a SuperLink turns a node, or a message of a run, away."""


def call_for_node(call: Callable[[Any], Any], request: object) -> Any:
    """Make a call about this node.

    Raises:
        NotLetInError: the SuperLink turns the node away.
        TooLargeError: the answer is longer than its limit, and was not read.
        SuperLinkDownError: there is no answer, or it cannot be parsed.
    """
    try:
        return call(request)
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        kind = NotLetInError if status in _UNKNOWN else SuperLinkDownError
        raise kind(type(error).__name__, status) from None
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, ValueError) as error:
        raise SuperLinkDownError(type(error).__name__) from None


def call_for_message(call: Callable[[Any], Any], request: object) -> Any:
    """Make a call about one message; a refusal by the SuperLink concerns that message, not the node.

    Raises:
        GoneError: the SuperLink has lost it, or its run has ended.
        TooLargeError: the answer is longer than its limit, and was not read.
        SuperLinkDownError: there is no answer, or it cannot be parsed.
    """
    try:
        return call(request)
    except TooLargeError:
        raise
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        if status < 500 and status != 429:
            raise GoneError(str(status)) from None
        raise SuperLinkDownError(type(error).__name__, status) from None
    except (httpx.HTTPError, httpx.StreamError, ValueError) as error:
        raise SuperLinkDownError(type(error).__name__) from None


def retry(call: Callable[[], Any], patience: Callable[[], bool]) -> Any:
    """Repeat a call while the SuperLink is down and `patience()` is true. Then SuperLinkDownError is raised."""
    wait = _LEAST_RETRY
    while True:
        try:
            return call()
        except SuperLinkDownError:
            if not patience():
                raise
            time.sleep(wait)
            wait = min(2 * wait, _MOST_RETRY)
