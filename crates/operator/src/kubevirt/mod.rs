//! The KubeVirt operator: a thin shell around `plan::kubevirt::plan`.
//!
//! Guaranteed: what is written is what that function asked for; nothing is written while this
//! process does not lead; when there is nothing to do, no request is made.

mod kinds;
