//! The Kubernetes API in memory.
