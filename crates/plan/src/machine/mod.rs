//! From a `Machine` to the exact objects it becomes.
//!
//! [`resolve()`] turns what a person wrote, and what it refers to, into a [`ResolvedMachine`] in
//! which nothing is implicit; [`build()`] turns that into objects. After `resolve` nothing looks
//! at the raw spec again.

pub mod build;
mod error;
mod resolve;
mod resolved;
mod surroundings;

pub use build::{MachineObjects, VolumeObject, build};
pub use error::{ErrorType, SpecError};
pub use resolve::{Note, Resolution, resolve};
pub use resolved::{
    Attachment, Bootloader, CloudInit, Identity, ResolvedDisk, ResolvedInterface, ResolvedMachine,
    SizingSource, UserData,
};
pub use surroundings::{Known, Lookup, Surroundings};
