//! The fuzz target `inputs` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| inferstore_fuzz::inputs(data));
