//! The fuzz target `journal` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::journal::run(bytes));
