//! The fuzz target `trace_chrome` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::trace_chrome::run(bytes));
