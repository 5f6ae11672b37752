//! The fuzz target `policies` for cargo-fuzz.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| inferstore_fuzz::policies(data));
