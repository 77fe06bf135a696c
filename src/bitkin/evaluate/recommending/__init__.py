"""`recommend`: the cheapest configuration that reaches a recall."""
