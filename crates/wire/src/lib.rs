//! What bytes mean: headers, checksums, a one-line dissector.
