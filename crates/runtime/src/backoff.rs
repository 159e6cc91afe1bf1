//! How long to wait after failures.
