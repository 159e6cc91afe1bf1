//! Logs, one line an event.
