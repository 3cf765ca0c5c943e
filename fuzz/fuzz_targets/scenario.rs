//! The fuzz target `scenario` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::scenario::run(bytes));
