//! Where frames enter and leave.
