"""A curator as a process of its own, which answers over the network.

* `settings`: what `daemon.toml` says
* `node_key`: the key under which a SuperLink knows this node
"""
