//! Many nodes, one virtual clock, one seed.
