"""A curator as a process of its own, which answers over the network: `expril curator serve`.

* `settings`: the settings in `daemon.toml`
* `node_key`: the key under which a SuperLink knows this node
* `calls`: calls to a SuperLink: bounded answers, four kinds of errors
* `fleet`: a node at a SuperLink, in Flower's terms
* `log`: events, one line of JSON each
* `service`: the loop that fetches, answers and sends messages, and the steward's files as they change
* `health`: counts and logs of requests, and the health page
* `process`: signals, systemd, start and stop
"""
