//! Counters, drop reasons, histograms, the cost ledger.
