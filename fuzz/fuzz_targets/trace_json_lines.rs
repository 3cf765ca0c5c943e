//! The fuzz target `trace_json_lines` as a program.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::trace_json_lines::run(bytes));
