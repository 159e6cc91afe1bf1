//! The containerized data importer: claims that are filled.

mod claim;
mod crds;
mod data_volume;

pub use self::{crds::crds, data_volume::DataVolumes};

#[cfg(test)]
mod tests;
