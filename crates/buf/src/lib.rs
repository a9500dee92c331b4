//! Who owns the bytes: frames, pools, bursts, rings.
