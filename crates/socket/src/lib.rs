//! The BSD face: descriptors, options, errno, readiness.
