"""An audit as one page for who must answer for the data: `page` writes it, `figures` places marks, `words` speaks."""
