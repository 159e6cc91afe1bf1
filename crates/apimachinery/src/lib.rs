//! Small parts of Kubernetes' `apimachinery` that several crates share, and the retry ledger.
//!
//! Pure: no clock, no entropy, no client. Texts equal what a Go program prints, because API servers
//! and controllers compare and print them.

pub mod duration;
pub mod go;
pub mod label_selector;
pub mod random;
pub mod retry_ledger;
pub mod taints;
