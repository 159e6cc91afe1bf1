//! Fuzz target: from arbitrary bytes to objects.
#![no_main]

#[path = "../whole_way.rs"]
mod whole_way;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| whole_way::go_the_whole_way(bytes));
