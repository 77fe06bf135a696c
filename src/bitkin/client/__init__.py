"""A collection that a service holds, with the methods of one that is here: `Client` and
`AsyncClient`.

What is asked for is a flow, a generator: it yields what is to be sent, and is sent what came back.
Both clients run the same flows; they differ in how they send and wait, and in nothing else.
"""
