//! The client: every call is timed, counted, limited and fenced.
