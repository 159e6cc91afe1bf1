//! What a Kubernetes API server answers, as cases that run on any of them.
