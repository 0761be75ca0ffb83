"""A SuperLink that comes and goes, as a demonstration and the fault tests need it."""

import socket
import ssl
import subprocess

import pytest

from curator_node.daemon.node_key import read_node_key, write_node_key
from protocol.errors import ConfigurationError
from simulations.carriers.superlink import SuperLink, make_certificates


def test_a_certificate_of_the_folder_is_taken_and_no_other(tmp_path):
    ca = make_certificates(tmp_path)
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert len(context.get_ca_certs()) == 1
    assert (tmp_path / "server.key").stat().st_mode & 0o077 == 0


def test_a_node_is_registered_by_the_file_that_flower_s_own_command_takes(superlink, tmp_path):
    write_node_key(tmp_path / "node.pem", tmp_path / "node.pub")
    number = superlink.register(tmp_path / "node.pub")
    assert superlink.nodes()[number] == "registered"
    assert (tmp_path / "node.pem").stat().st_mode & 0o077 == 0
    assert read_node_key(tmp_path / "node.pem").curve.name == "secp384r1"
    with pytest.raises(ConfigurationError, match="never overwritten"):
        write_node_key(tmp_path / "node.pem", tmp_path / "node.pub")


@pytest.mark.slow
def test_a_durable_superlink_knows_its_nodes_after_a_restart_on_the_same_port(tmp_path):
    write_node_key(tmp_path / "node.pem", tmp_path / "node.pub")
    link = SuperLink(tmp_path / "link", durable=True)
    with link:
        number = link.register(tmp_path / "node.pub")
        address = link.address
        link.kill()
        link.start()
        assert link.address == address
        assert number in link.nodes()


@pytest.mark.slow
def test_a_superlink_that_cannot_start_says_where_to_read(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other, pytest.raises(ConfigurationError, match=r"superlink\.log"):
        SuperLink(tmp_path, port=other.getsockname()[1]).start()


@pytest.mark.slow
def test_no_process_is_left(tmp_path):
    link = SuperLink(tmp_path)
    link.start()
    process = link._process
    link.stop()
    link.stop()
    assert isinstance(process, subprocess.Popen)
    assert process.poll() is not None
