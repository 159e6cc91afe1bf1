//! Leader election on a Lease, by client-go's rules.
