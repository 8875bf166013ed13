"""What users look at and what wakes them: the metrics reference, dashboards and alerts, all made from code.

`python -m monitoring.generate` writes them; nothing of the operator or the workers imports this.
"""
