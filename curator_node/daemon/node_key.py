"""The key under which a SuperLink knows this node: ECDSA P-384, as OpenSSH writes it.

This key only shows who may fetch messages. A curator's replies are signed with its signing key.
"""

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from expril.files import write_new
from protocol.errors import ConfigurationError

RULE = "a key is never overwritten"


def write_node_key(private: Path, public: Path) -> None:
    """Make a node key: a private file that only its owner may read, and a public file that the SuperLink registers.

    Raises:
        ConfigurationError: a file exists already or cannot be written.
    """
    key = ec.generate_private_key(ec.SECP384R1())
    if public.exists():
        raise ConfigurationError(f"{public} exists; {RULE}")
    write_new(private, key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()), rule=RULE)
    public_text = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + b"\n"
    write_new(public, public_text, rule=RULE, public=True)


def read_node_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private node key.

    Raises:
        ConfigurationError: there is no such file, or it holds no unencrypted elliptic-curve key in OpenSSH's format.
    """
    remedy = f"make one: ssh-keygen -t ecdsa -b 384 -N '' -f {path}"
    if not path.is_file():
        raise ConfigurationError(f"no node key {path}; {remedy}")
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise ConfigurationError(f"cannot read the node key {path}: {error.strerror}") from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise ConfigurationError(f"{path} is not an unencrypted OpenSSH key; {remedy}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigurationError(f"{path} is not an elliptic-curve key, which Flower wants; {remedy}")
    return key
