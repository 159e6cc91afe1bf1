//! The kinds that every Kubernetes cluster has: their schemas, defaults, rules and columns.
