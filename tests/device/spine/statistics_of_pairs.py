"""Paired comparison of step times: the relative difference and its confidence interval."""

import random
import statistics


def relative_differences(pairs):
    """For [(off, on)] of medians: (on - off) / off."""
    return [(on - off) / off for off, on in pairs]


def bootstrap_interval(values, resamples=10000, share=0.95, seed=1):
    """(low, high) of the median of `values`, by resampling the pairs."""
    source = random.Random(seed)
    medians = sorted(statistics.median(source.choices(values, k=len(values)))
                     for _ in range(resamples))
    cut = int(resamples * (1 - share) / 2)
    return medians[cut], medians[-1 - cut]


def step_medians(path, windows):
    """Median step duration (ns) and count of steps for each (begin, end) in CLOCK_MONOTONIC ns.

    The file holds "end_ns duration_ns" per step; a step counts if it lies whole in the window.
    """
    steps = []
    with open(path, encoding="ascii") as file:
        for line in file:
            parts = line.split()
            if len(parts) == 2:
                steps.append((int(parts[0]), int(parts[1])))
    out = []
    for begin, end in windows:
        inside = [duration for stop, duration in steps if stop - duration >= begin and stop <= end]
        out.append((statistics.median(inside) if inside else None, len(inside)))
    return out
