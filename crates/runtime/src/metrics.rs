//! Building blocks of Prometheus metrics.
//!
//! An operator registers its own families in a `prometheus_client` registry and serves what
//! [`expose`] returns. [`GaugeSet`] drops series whose objects no longer exist, and [`BoundedNames`]
//! bounds the number of series however many names users choose.

mod certificates;
mod exposition;
mod gauge_set;
mod names;
mod process;

pub use certificates::{CertificateMetrics, Validity};
pub use exposition::{CONTENT_TYPE, expose};
pub use gauge_set::GaugeSet;
pub use names::{BoundedNames, MAX_NAMES, OTHER};
pub use process::ProcessCollector;
