//! Refusals and reviews are held against what a kube-apiserver (1.38 alpha) said to the same
//! requests.

mod authorization;
mod escalation;
mod impersonation;
mod tokens;
