//! Authentication and authorization tests. Expected texts are those of kube-apiserver (1.38 alpha)
//! for the same requests.

mod authorization;
mod escalation;
mod impersonation;
mod tokens;
