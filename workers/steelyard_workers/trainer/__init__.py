"""The trainer: feeds tasks, collects scored groups, learns, publishes weights and commits its ledger."""
