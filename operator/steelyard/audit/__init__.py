"""The resource audit of one job: where its time and its GPUs went, what holds it back, what reallocation is worth.

Pure: a `Record` in, an `Audit` out (`report.audit`), the same figures as a page, a table and JSON. `cli/audit.py` reads
the record and writes the result.
"""
