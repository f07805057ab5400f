"""What comes from outside, checked once: settings, files, text for a terminal."""
