//! Objects by name, as far as they are known.
