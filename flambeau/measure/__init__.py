"""How long, how often, how much memory, how many operations: timers, profilers, counters."""
