"""The parts of scripts/benchmark. Python 3.11, standard library only."""
