//! The fuzz target `trace_semicolon_csv` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::trace_semicolon_csv::run(bytes));
