"""How envelopes reach curators: a folder, Flower's SuperLink; and a journal that lets another process go on."""
