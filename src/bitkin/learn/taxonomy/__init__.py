"""Trees of classes: made, looked up, drawn and stored."""
