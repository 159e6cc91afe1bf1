//! Patches and server-side apply: how two versions of an object become one.
