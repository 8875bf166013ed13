"""`steelyard diff`: what applying a job's file would come to, by the API server and the operator's own rules."""
