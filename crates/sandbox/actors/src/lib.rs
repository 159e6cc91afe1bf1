//! Controllers that behave as nodes, storage and KubeVirt do.
