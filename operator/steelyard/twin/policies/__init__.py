"""What a job could be balanced by instead of Steelyard; docs/decisions/0013 defines each."""
