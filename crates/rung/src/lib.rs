//! The stack as a dynamic library with a C face, for the ladder's first rungs.
