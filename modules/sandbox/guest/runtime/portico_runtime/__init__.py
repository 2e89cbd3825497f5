"""The inside of the sandbox. Programs need not know it."""
