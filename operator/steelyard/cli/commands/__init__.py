"""The commands, a module each: what it asks for, in what order it looks and acts, and how that is shown."""
