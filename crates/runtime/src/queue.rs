//! What is to be looked at, and when.
