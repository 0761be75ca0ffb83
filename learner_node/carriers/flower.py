"""The learner's side of Flower: a carrier over a Grid, and a ServerApp around a study. No decision is taken here."""

from collections.abc import Callable, Mapping

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from protocol.carriage import FIELD, MESSAGE_TYPE, RECORD


class FlowerCarrier:
    """Sends envelopes over a Flower Grid.

    `nodes` maps each curator's public key to its Flower node id. A curator without a reply after `timeout` seconds is
    omitted.
    """

    def __init__(self, grid: Grid, nodes: Mapping[bytes, int], *, timeout: float = 60.0) -> None:
        self._grid = grid
        self._nodes = dict(nodes)
        self._curators = {node: key for key, node in nodes.items()}
        self._timeout = timeout

    def exchange(self, requests: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Exchange envelopes as `learner_node.study.federation.Carrier`.

        Errors and unreadable replies count as no reply.
        """
        messages = [
            Message(RecordDict({RECORD: ConfigRecord({FIELD: data})}), self._nodes[key], MESSAGE_TYPE)
            for key, data in requests.items()
            if key in self._nodes
        ]
        replies = {}
        for reply in self._grid.send_and_receive(messages, timeout=self._timeout):
            curator = self._curators.get(reply.metadata.src_node_id)
            if curator is None or reply.has_error():
                continue
            data = reply.content.get(RECORD, {}).get(FIELD)
            if isinstance(data, bytes):
                replies[curator] = data
        return replies


def make_server_app(run: Callable[[Grid, Context], None]) -> ServerApp:
    """A ServerApp whose main function is `run`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(grid, context)

    return app
