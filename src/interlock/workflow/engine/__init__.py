"""The engine: takes an agent through the steps of a workflow, one turn at a time, and decides what each turn means."""
