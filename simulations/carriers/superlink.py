"""A SuperLink on loopback with TLS and node authentication, and a deployment of curators' daemons at it.

A site of a real federation runs `flower-superlink` by itself, as docs/administrator/daemon.md says. Everything here
lies in one folder: the certificates, the secret under which learners fetch their runs, Flower's own files and the log.
"""

import datetime as dt
import ipaddress
import os
import secrets
import signal
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from curator_node.daemon.node_key import write_node_key
from curator_node.daemon.settings import DAEMON, NODE_KEY, NODE_PUBLIC
from curator_node.steward.new_site import daemon_template
from learner_node.carriers.superlink import SuperLinkCarrier
from learner_node.carriers.superlink_run import SuperLinkAddress
from learner_node.study.federation import Carrier
from protocol.envelopes import SigningKey
from protocol.errors import ConfigurationError
from protocol.flower_internals import ControlHttpClient, ListNodesRequest, RegisterNodeRequest
from simulations.carriers.processes import Processes, guarded
from simulations.carriers.sites import Simulated, simulated_of

LOOPBACK = "127.0.0.1"
CA, CERTIFICATE, KEY, SECRET, LOG = "ca.crt", "server.pem", "server.key", "superexec.secret", "superlink.log"
START_SECONDS = 120.0
"""Seconds allowed for a start; a slow machine that has not compiled Flower yet needs half a minute."""
STOP_SECONDS = 20.0
VALID = dt.timedelta(days=30)
TIMEOUT_SECONDS, IMPATIENT_SECONDS = 60.0, 10.0
"""Seconds to wait for replies before a curator is left out. The second holds if a fault of the scenario is silence."""
ONLINE = "online"
SERVICE_PORTS = range(20_000, 32_000)
"""Below the ports that Linux gives to outgoing connections."""


def free_port() -> int:
    """A port of the loopback interface that is free now, and that nobody takes before it is used.

    No outgoing connection does, and no other call of this, in whatever process: a UDP socket of the same number keeps
    it until this process ends, since whoever listens there begins seconds later.
    """
    for port in (secrets.choice(SERVICE_PORTS) for _ in range(100)):
        with socket.socket(type=socket.SOCK_DGRAM) as kept, socket.socket() as sock, suppress(OSError):
            kept.bind((LOOPBACK, port))
            sock.bind((LOOPBACK, port))
            kept.detach()  # it stays open
            return port
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        return int(sock.getsockname()[1])


def make_certificates(folder: Path) -> Path:
    """Write certificates of a new authority and of a server on the loopback; return the authority's file.

    The authority's key is discarded, so nothing else can be certified under it.
    """
    authority, server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "ExPriL demonstration authority")])
    root = (
        _certificate(issuer, issuer, authority.public_key(), authority.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
        .sign(authority, SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    leaf = (
        _certificate(subject, issuer, server.public_key(), authority.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority, SHA256())
    )
    (folder / CA).write_bytes(root.public_bytes(Encoding.PEM))
    (folder / CERTIFICATE).write_bytes(leaf.public_bytes(Encoding.PEM))
    pem = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    _write_secret(folder / KEY, pem)
    return folder / CA


class SuperLink:
    """A `flower-superlink` process; a context manager that starts and stops it.

    Learners run their own server apps, so the SuperLink starts none (`--isolation process`). It listens at `address`
    ("host:port"), certified by the authority in file `ca`. A learner fetches its run with the secret in file `secret`.
    The process writes to file `log`.

    Args:
        folder: for all files; created if absent, and reused if an earlier SuperLink left it.
        durable: keeps the state in a database file, so that it survives a restart; otherwise in memory.
        port: port on the loopback; 0 takes a free one, and the same one at every start.
        stock: runs the server apps that it is given, as Flower does by default; for comparisons.
    """

    def __init__(self, folder: Path, *, durable: bool = False, port: int = 0, stock: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._durable = durable
        self._stock = stock
        self._port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None
        self.address = f"{LOOPBACK}:{self._port}"
        self.ca, self.secret, self.log = folder / CA, folder / SECRET, folder / LOG
        if not self.ca.is_file():
            make_certificates(folder)
            _write_secret(self.secret, secrets.token_bytes(32))

    @property
    def database(self) -> Path:
        """File of its state, if it is durable."""
        return self._folder / "superlink.db"

    def start(self) -> None:
        """Start it and wait until it answers. Raises ConfigurationError with its log if it ends or is too slow."""
        command = guarded(
            str(Path(sysconfig.get_path("scripts")) / "flower-superlink"),
            *("--ssl-ca-certfile", str(self.ca), "--ssl-certfile", str(self._folder / CERTIFICATE)),
            *("--ssl-keyfile", str(self._folder / KEY), "--enable-supernode-auth"),
            *(() if self._stock else ("--isolation", "process", "--superexec-auth-secret-file", str(self.secret))),
            *("--disable-runtime-dependency-installation", "--host", LOOPBACK, "--port", str(self._port)),
            *(("--database", str(self.database)) if self._durable else ()),
        )
        quiet = {
            "FLWR_HOME": str(self._folder),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_LOG_LEVEL": "WARNING",  # a line for each call takes more time than many of them
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own arguments
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **quiet}
            )
        try:
            self._wait()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop it, if it is running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, as a power failure would."""
        self._end(signal.SIGKILL)

    def control(self) -> Any:
        """A new client of the Control API, which needs no credentials here; a context manager."""
        return ControlHttpClient.from_server_address(self.address, False, self.ca.read_bytes(), ())

    def register(self, public: Path) -> int:
        """Admit a node by the file of its public key (OpenSSH, as from `expril curator init`); return Flower's number.

        An in-memory SuperLink has forgotten its nodes after a restart.
        """
        pem = load_ssh_public_key(public.read_bytes()).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        return int(self._connected().RegisterNode(RegisterNodeRequest(public_key=pem)).node_id)

    def nodes(self) -> dict[int, str]:
        """Node -> its status ("registered", "online", "offline")."""
        return {node.node_id: node.status for node in self._connected().ListNodes(ListNodesRequest()).nodes_info}

    def online(self) -> set[int]:
        """The nodes that are connected."""
        return {node for node, status in self.nodes().items() if status == ONLINE}

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _connected(self) -> Any:
        """One client for all looks: a TLS handshake for each would take the processors from what is waited for."""
        if self._client is None:
            self._client = self.control()
        return self._client

    def _wait(self) -> None:
        assert self._process is not None  # noqa: S101 - started just before
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise ConfigurationError(f"the SuperLink ended at once; read {self.log}")
            try:
                self.nodes()
            except Exception:  # noqa: BLE001 - whatever a server that is not there yet makes of a client
                time.sleep(0.1)
            else:
                return
        raise ConfigurationError(f"the SuperLink did not answer within {START_SECONDS:.0f} s; read {self.log}")

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        client, self._client = self._client, None
        if client is not None:
            client.close()
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, signer: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write_secret(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)


class Deployment:
    """A SuperLink for any number of simulations, with all files in `folder`; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._link = SuperLink(folder / "superlink")

    def serve(self, folders: Mapping[bytes, Path], work: Callable[[Carrier], None]) -> None:
        """Serve the folders by daemons; a `simulations.carriers.Serve`."""
        with Processes(self._folder) as processes:
            nodes = {self._start(processes, folder) for folder in folders.values()}
            processes.wait(lambda: self._link.online() >= nodes, "to start the curators' daemons")
            silence = any(simulated_of(folder).faults for folder in folders.values())
            with SuperLinkCarrier(
                SuperLinkAddress(self._link.address, self._link.ca.read_bytes(), self._link.secret.read_bytes()),
                SigningKey.generate(),
                folders.keys(),
                timeout=IMPATIENT_SECONDS if silence else TIMEOUT_SECONDS,
            ) as carrier:
                work(carrier)

    def __enter__(self) -> Self:
        self._link.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._link.stop()

    def _start(self, processes: Processes, folder: Path) -> int:
        """Admit a site's node and start its daemon; returns Flower's number of the node."""
        (folder / DAEMON).write_text(daemon_template(self._link.address, free_port()), encoding="utf-8")
        (folder / CA).write_bytes(self._link.ca.read_bytes())
        write_node_key(folder / NODE_KEY, folder / NODE_PUBLIC)
        node = self._link.register(folder / NODE_PUBLIC)
        if simulated_of(folder) == Simulated():
            processes.start(f"curator-{folder.name}", "expril", "curator", "serve", str(folder))
        else:
            processes.start(f"curator-{folder.name}", "simulations.carriers.launch", str(folder))
        return node
