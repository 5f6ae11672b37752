//! The fuzz target `messages` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| inferstore_fuzz::messages(data));
