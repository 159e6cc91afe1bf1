//! Fuzz target: from arbitrary bytes to objects.
#![no_main]

#[path = "../validate_and_render.rs"]
mod validate_and_render;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| validate_and_render::validate_and_render(bytes));
