"""Reports as one HTML file, and as Markdown."""
