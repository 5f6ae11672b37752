//! The fuzz target `upload_targets` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| inferstore_fuzz::upload_targets(data));
