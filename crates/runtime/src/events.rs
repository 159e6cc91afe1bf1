//! Events that people read in `kubectl describe`.
