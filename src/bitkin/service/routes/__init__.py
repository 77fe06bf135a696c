"""The routes of a service, by what they are about."""
