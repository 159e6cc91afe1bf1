//! Refusals and reviews are held against what a kube-apiserver (1.38 alpha) said to the same
//! requests.

mod escalation;
mod impersonation;
mod rights;
mod tokens;
