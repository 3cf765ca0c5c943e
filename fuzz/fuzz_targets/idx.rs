//! The fuzz target `idx` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::idx::run(bytes));
