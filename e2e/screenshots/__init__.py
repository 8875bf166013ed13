"""The pages that people open, in a real browser. `make screenshots` leaves the pictures in build/screenshots."""
