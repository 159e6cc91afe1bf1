//! CDI, the Containerized Data Importer: its kinds and its DataVolume controller.

mod claim;
mod crds;
mod data_volume;

pub use self::{crds::crds, data_volume::DataVolumes};

#[cfg(test)]
mod tests;
