//! Who sends a request, and whether they may.
//!
//! Everything here is a decision over data that is handed in: tokens and the time for
//! [`Authenticator`], roles and bindings for [`rbac`], headers for [`impersonate`]. Nothing reads a
//! clock, a store or a random source, and no secret is part of an error or of debug output.

mod attributes;
mod authenticate;
pub mod impersonate;
pub mod rbac;
pub mod review;
mod token;
mod user;

pub use attributes::Attributes;
pub use authenticate::{Authenticator, TokenGetter};
pub use token::{Bound, Claims, Reference};
pub use user::User;

#[cfg(test)]
mod test_cluster;
#[cfg(test)]
mod tests;
