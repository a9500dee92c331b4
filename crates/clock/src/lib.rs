//! Time as a value: instants, clock strategies, a simulated clock, a timer wheel.
