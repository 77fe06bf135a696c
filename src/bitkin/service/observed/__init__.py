"""What a service sees of itself: times, memory, counters."""
