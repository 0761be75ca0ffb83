"""A curator as a process of its own, which answers over the network: `expril curator serve`.

* `settings`: what `daemon.toml` says
* `node_key`: the key under which a SuperLink knows this node
* `calls`: calls to a SuperLink: bounded answers, four kinds of errors
* `fleet`: a node at a SuperLink, in Flower's terms
* `log`: events, one line of JSON each
* `watch`: requests and replies, counted and told
* `policy_files`: the steward's files, as they change
* `service`: the loop: fetch, answer, send; reconnect
* `health`: the health page
* `process`: signals, systemd, start and stop
"""
