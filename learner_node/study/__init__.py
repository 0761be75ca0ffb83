"""A study with several curators, from the plan to the last receipt: state machines, and what drives them."""
