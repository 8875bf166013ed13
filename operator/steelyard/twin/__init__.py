"""Digital twin: the operator's own balance against a simulated pipeline with a simulated clock (docs/decisions/0012).

Nothing here talks to a cluster, reads a clock or draws from an unseeded generator.
"""
