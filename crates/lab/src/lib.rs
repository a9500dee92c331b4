//! Trials, samples, comparisons, ladders, reproductions.
