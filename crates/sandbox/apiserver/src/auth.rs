//! Authentication, impersonation and authorization.
//!
//! Pure decisions over data passed in: tokens and time for [`Authenticator`], roles and bindings
//! for [`rbac`], headers for [`impersonate`]. No secret appears in errors or debug output.

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
