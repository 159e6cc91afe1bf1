//! The server of probes and metrics.
