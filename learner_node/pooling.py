"""How answers of several curators become models: added up to one ("sum"), or one for each curator ("site")."""

from typing import Literal

Pooling = Literal["sum", "site"]
