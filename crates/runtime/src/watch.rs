//! Watches that go on whatever happens.
