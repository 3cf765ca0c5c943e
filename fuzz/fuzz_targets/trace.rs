//! The fuzz target `trace` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::trace::run(bytes));
